// SPDX-License-Identifier: Apache-2.0

package rcu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	query  = 0 // MEMBARRIER_CMD_QUERY of linux/membarrier.h
	global = 1 // MEMBARRIER_CMD_GLOBAL
)

// Supported returns the reason why Synchronize would fail at once, or nil. It does not wait.
func Supported() error {
	commands, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, query, 0, 0)
	switch {
	case errno != 0:
		return fmt.Errorf("rcu: membarrier: %w", errno)
	case commands&global == 0: // on processors with nohz_full
		return fmt.Errorf("rcu: membarrier: %w", unix.EINVAL)
	}
	return nil
}

// Synchronize waits for one grace period of RCU, usually 15 to 20 ms.
func Synchronize() error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return fmt.Errorf("rcu: membarrier: %w", errno)
	}
	return nil
}
