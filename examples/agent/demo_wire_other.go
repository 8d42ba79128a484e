// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// endWithThread does nothing: the demo needs Linux.
func endWithThread() *syscall.SysProcAttr { return nil }
