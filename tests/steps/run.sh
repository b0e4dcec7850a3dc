#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh COMMAND...: runs a step, then says what processor time it took.
TIMEFORMAT='%U + %S s of processor time'
time "$@" </dev/null
