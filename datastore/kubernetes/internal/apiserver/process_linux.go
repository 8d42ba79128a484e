// SPDX-License-Identifier: Apache-2.0

package apiserver

import "syscall"

// endsWithParent ends a child process when the thread that started it ends.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
