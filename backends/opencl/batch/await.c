// SPDX-License-Identifier: Apache-2.0
// How the engine learns that commands have ended. Drivers call back; but
// NVIDIA's looks for ended transfers only every 20 ms (driver 580), and
// clWaitForEvents() keeps a core busy. So a GPU's events are asked for by the
// driver thread: the more seldom, the longer they take.
#include "backends/opencl/opencl.h"

#define ASK_NS 50000

bool ocl_await(struct ocl *o, cl_event event, ocl_done_fn done, void *arg,
               struct ocl_fault *fault)
{
    struct ocl_await *a = &o->awaits[o->num_awaits];

    if (!o->asks)
        return !ocl_failed(
            fault, o->api.clSetEventCallback(event, CL_COMPLETE, done, arg),
            "clSetEventCallback");
    o->num_awaits++;
    *a = (struct ocl_await){event, done, arg, hr__now(), hr__now()};
    return true;
}

int64_t ocl_await_due(const struct ocl *o)
{
    int64_t due = INT64_MAX;

    for (int i = 0; i < o->num_awaits; i++) {
        const struct ocl_await *a = &o->awaits[i];
        int64_t rest = (a->asked - a->since) / 8;
        int64_t at = a->asked + (rest < ASK_NS ? ASK_NS : rest);

        due = at < due ? at : due;
    }
    return due;
}

// If it is unknown whether commands have ended, none may run on after the end
// of its tasks.
static void finish_all(struct ocl *o)
{
    bool ok = true;

    for (int i = 0; i < OCL_QUEUES; i++)
        ok &= !o->api.clFinish(o->queues[i]);
    pthread_mutex_lock(&o->guard.lock);
    o->guard.lost |= !ok;
    pthread_mutex_unlock(&o->guard.lock);
}

// Asks whether the commands have ended: > 0: not yet, < 0: they failed.
static cl_int ask(struct ocl *o, const struct ocl_await *a)
{
    cl_int state = CL_QUEUED, err;

    ocl_enter(o);
    err = o->api.clGetEventInfo(a->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                sizeof(state), &state, NULL);
    if (err) {
        finish_all(o);
        state = err;
    }
    ocl_leave(o);
    return state;
}

void ocl_await_look(struct ocl *o)
{
    int n = 0;

    for (int i = 0; i < o->num_awaits; i++) {
        struct ocl_await a = o->awaits[i];
        cl_int state = ask(o, &a);

        a.asked = hr__now();
        if (state <= CL_COMPLETE)
            a.done(a.event, state, a.arg);
        else
            o->awaits[n++] = a;
    }
    o->num_awaits = n;
}

void ocl_await_close(struct ocl *o)
{
    o->num_awaits = 0;
}
