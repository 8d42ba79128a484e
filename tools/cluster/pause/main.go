// SPDX-License-Identifier: Apache-2.0

// Command pause is the program of the container that holds a pod's namespaces: it waits until it
// is told to end. In a pod that shares its process namespace it is process 1, and so it waits for
// processes without a parent.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
	}
}
