// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// endWithThread returns the attributes of a process that is killed when the thread that starts it
// ends.
func endWithThread() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
