// SPDX-License-Identifier: Apache-2.0
#include "nginx.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "testing.h"

#define ECHO_MODULE "/usr/lib/nginx/modules/ngx_http_echo_module.so"

static pid_t spawn(char *const argv[])
{
    pid_t pid = fork();
    int null;

    if (pid)
        return pid;
    null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    execvp(argv[0], argv);
    _exit(127);
}

static bool ran(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           !WEXITSTATUS(status);
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// One that is free now.
static int free_port(void)
{
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (void *)&at, size) || getsockname(fd, (void *)&at, &size))
        abort();
    close(fd);
    return ntohs(at.sin_port);
}

// It writes its number once it listens. False: it has ended, or a minute is
// over.
static bool listens(struct nginx *n, const char *dir)
{
    char path[4300];
    bool ok = false;

    snprintf(path, sizeof(path), "%s/pid", dir);
    for (int i = 0; i < 6000 && !(ok = !access(path, F_OK)); i++) {
        if (waitpid(n->pid, NULL, WNOHANG) == n->pid) {
            n->pid = 0;
            break;
        }
        test_sleep(10 * TEST_MS);
    }
    return ok;
}

static bool make_certificate(const struct nginx *n, char *key)
{
    char certificate[4200];

    strcpy(certificate, n->certificate);
    return ran(spawn((char *const[]){
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
        key, "-out", certificate, NULL}));
}

static void write_config(const struct nginx *n, const char *path,
                         const char *dir, const char *folder, const char *key,
                         const int port[2])
{
    bool echo = !access(ECHO_MODULE, R_OK);
    FILE *f = fopen(path, "w");

    fprintf(f, "%s", echo ? "load_module " ECHO_MODULE ";\n" : "");
    fprintf(f, "daemon off; master_process off; pid %s/pid;\n", dir);
    fprintf(f, "error_log %s/error.log;\n%sevents {}\n", dir,
            geteuid() ? "" : "user root;\n");
    fprintf(f, "http { access_log off; sendfile on; tcp_nopush on;\n"
               "keepalive_requests 1000000;\n");
    for (const char *const *temp =
             (const char *const[]){"client_body", "proxy", "fastcgi", "uwsgi",
                                   "scgi", NULL};
         *temp; temp++)
        fprintf(f, "%s_temp_path %s/%s;\n", *temp, dir, *temp);
    fprintf(f,
            "server { listen 127.0.0.1:%d; root %s;\n"
            "location /moved/ { rewrite ^/moved(.*)$ $1 redirect; }\n",
            port[0], folder);
    if (echo)
        fprintf(f,
                "location /late/ { echo_sleep 0.02; echo_exec /now$uri; }\n"
                "location /now/late/ { internal; alias %s/; }\n",
                folder);
    fprintf(f, "}\n");
    if (*n->https)
        fprintf(f,
                "server { listen 127.0.0.1:%d ssl; root %s;\n"
                "ssl_certificate %s; ssl_certificate_key %s;\n"
                "location /down/ { return 302 %s/d/x.tar; } }\n",
                port[1], folder, n->certificate, key, n->http);
    fprintf(f, "}\n");
    fclose(f);
}

// False: it does not run, for its port is taken by now, or for another reason.
static bool start_at(struct nginx *n, const char *dir, const char *folder,
                     const char *key, bool https)
{
    int port[2] = {free_port(), free_port()};
    char path[4300];

    if (https)
        snprintf(n->https, sizeof(n->https), "https://127.0.0.1:%d", port[1]);
    snprintf(n->http, sizeof(n->http), "http://127.0.0.1:%d", port[0]);
    if (!access(ECHO_MODULE, R_OK))
        snprintf(n->late, sizeof(n->late), "http://127.0.0.1:%d/late", port[0]);
    snprintf(path, sizeof(path), "%s/nginx.conf", dir);
    write_config(n, path, dir, folder, key, port);
    n->pid = spawn((char *const[]){"nginx", "-p", (char *)(uintptr_t)dir, "-c",
                                   path, NULL});
    if (listens(n, dir))
        return true;
    nginx_stop(n);
    return false;
}

bool nginx_start(struct nginx *n, const char *folder, char why[256])
{
    const char *dir = test_folder();
    char key[4300];
    bool https;

    *n = (struct nginx){0};
    snprintf(n->certificate, sizeof(n->certificate), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    https = make_certificate(n, key);
    for (int i = 0; i < 5; i++)
        if (start_at(n, dir, folder, key, https))
            return true;
    *n = (struct nginx){0};
    snprintf(why, 256, "nginx does not run here");
    return false;
}

void nginx_stop(struct nginx *n)
{
    if (n->pid <= 0)
        return;
    kill(n->pid, SIGTERM);
    waitpid(n->pid, NULL, 0);
    n->pid = 0;
}
