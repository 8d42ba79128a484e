// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns"
)

// backendProcess is a process that runs 'agent dataplane' in the node's namespace.
type backendProcess struct {
	folder string // the folder with the sockets
	cmd    *exec.Cmd
	ended  chan error
}

// startBackend starts the process. It ends when this process ends, even if this process is killed.
func startBackend(c cli.Console, ns *netns.NS) (*backendProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "wayleave-demo-wire-")
	if err != nil {
		return nil, err
	}
	p := &backendProcess{folder: folder, ended: make(chan error, 1)}
	p.cmd = exec.Command(self, "dataplane", folder, "--forward-ipv6", "--log-level", "ERROR")
	p.cmd.Stderr = c.Err
	p.cmd.SysProcAttr = endWithThread()
	started := make(chan error, 1)
	go func() {
		// Do keeps its thread until the process ends.
		p.ended <- ns.Do(func() error {
			err := p.cmd.Start()
			started <- err
			if err != nil {
				return nil
			}
			return p.cmd.Wait()
		})
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("demo: start the second process: %w", err), os.RemoveAll(folder))
	}
	c.Printf("\nTwo processes: %d computes, %d ('agent dataplane') programs the kernel.\n",
		os.Getpid(), p.cmd.Process.Pid)
	return p, nil
}

// stop ends the process.
func (p *backendProcess) stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = errors.New("demo: the second process ended too early")
	}
	return errors.Join(err, <-p.ended, os.RemoveAll(p.folder))
}
