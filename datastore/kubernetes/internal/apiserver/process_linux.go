// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"math/rand/v2"
	"syscall"
)

// endsWithParent ends a child process when the thread that started it ends.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// loopback returns a random address of loopback, which has all of 127.0.0.0/8. So two servers that
// start at the same time hardly ever choose the same address and port.
func loopback() string {
	return fmt.Sprintf("127.%d.%d.%d", rand.IntN(255), rand.IntN(255), 1+rand.IntN(254))
}
