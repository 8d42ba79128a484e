// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
)

// runningAgent is the agent that runs during the demo. It is safe for concurrent use.
type runningAgent struct {
	config pipeline.Config
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // the error of Run; valid once done is closed

	mu      sync.Mutex
	state   pipeline.State
	changed chan struct{} // closed and replaced at each new state
}

// startAgent runs the agent until stop. It takes no context, because with --keep the agent goes on
// running after an interrupt.
func startAgent(cfg pipeline.Config) *runningAgent {
	ctx, cancel := context.WithCancel(context.Background())
	a := &runningAgent{config: cfg, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	cfg.Programmed = a.record
	go func() {
		defer close(a.done)
		a.err = pipeline.Run(ctx, cfg)
	}()
	return a
}

func (a *runningAgent) record(s pipeline.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = s
	close(a.changed)
	a.changed = make(chan struct{})
}

// pollInterval is the time between two comparisons with the kernel.
const pollInterval = 10 * time.Millisecond

// wait waits until an attempt to program has succeeded, at the time since or later, and the kernel
// has the table. It returns the time when the attempt ended.
func (a *runningAgent) wait(ctx context.Context, table *ruleset.Table, since time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout,
		fmt.Errorf("demo: not programmed within %s: see the log above", waitTimeout))
	defer cancel()
	for {
		a.mu.Lock()
		state, changed := a.state, a.changed
		a.mu.Unlock()
		last := state.Err
		if state.InSync && last == nil && !state.Time.Before(since) {
			kernel, err := applier.Compare(ctx, a.config.NetNS, table)
			if err == nil && kernel.Equal() {
				return state.Time, nil
			}
			last = errors.Join(err, errors.New(kernel.Reason))
		}
		select {
		case <-changed:
		case <-time.After(pollInterval): // old rules may be deleted later
		case <-a.done:
			return time.Time{}, errors.Join(errors.New("demo: the agent has ended"), a.err)
		case <-ctx.Done():
			return time.Time{}, errors.Join(context.Cause(ctx), last)
		}
	}
}

// stop ends the agent and returns its error.
func (a *runningAgent) stop() error {
	a.cancel()
	<-a.done
	return a.err
}

// shell starts the user's shell in the node's namespace, and waits until the shell ends. An
// interrupt ends only the program that runs in the shell: main catches the signal, and shell
// ignores it.
func (d *demo) shell() error {
	name := os.Getenv("SHELL")
	if name == "" {
		name = "/bin/sh"
	}
	d.Printf("\n%s in the node's network namespace; 'exit' ends the demo.\n", name)
	d.Printf("The agent watches %s: edit it and see.\nTo enter the namespaces of the others:\n", d.folder.path)
	for _, p := range d.node.Parties {
		d.Printf("  %-12s nsenter --net=/proc/%d/fd/%d\n", p.Name, os.Getpid(), p.NS.FD())
	}
	// A process that is started on a thread of the namespace is in that namespace.
	return d.node.NS.Do(func() error {
		cmd := exec.Command(name)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = d.In, d.Out, d.Err
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil // it is only the exit code of the last command in the shell
		}
		return err
	})
}
