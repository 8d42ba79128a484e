// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/dataplane/felix/internal/translate"
)

// child is a driver that was started.
type child struct {
	cfg *Config
	cmd *exec.Cmd
	// in is the write end of the pipe to the driver's file descriptor 3, out the read end of the
	// pipe from 4.
	in, out *os.File
	buf     []byte
	// sent is the number of messages that were written or are in buf.
	sent atomic.Uint64
	// exited is closed once the process has exited and waitErr is set.
	exited  chan struct{}
	waitErr error
	// ended is closed once the process has exited, its messages are handled, and the pipes are
	// closed.
	ended chan struct{}

	mu sync.Mutex
	// killReason is the reason of the first kill; nil if there was none.
	killReason error
}

// start starts the driver. A goroutine of the child calls handle with each message, and atEnd after
// ended is closed.
func start(cfg *Config, handle func(*felixpb.FromDataplane), atEnd func()) (*child, error) {
	driverIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, driverOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, driverIn.Close(), in.Close())
	}
	c := &child{
		cfg: cfg, cmd: exec.Command(cfg.Command[0], cfg.Command[1:]...), in: in, out: out,
		exited: make(chan struct{}), ended: make(chan struct{}),
	}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = cfg.Env, cfg.Stdout, cfg.Stderr
	c.cmd.ExtraFiles = []*os.File{driverIn, driverOut}
	c.cmd.WaitDelay = cfg.Grace
	err = c.cmd.Start()
	err = errors.Join(err, driverIn.Close(), driverOut.Close())
	if err != nil {
		if c.cmd.Process != nil {
			_, _ = c.cmd.Process.Kill(), c.cmd.Wait()
		}
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go c.wait()
	go c.run(handle, atEnd)
	return c, nil
}

// wait waits for the process to exit, and then ends read: a process that the driver started may
// still have the pipe open.
func (c *child) wait() {
	c.waitErr = c.cmd.Wait()
	_ = c.out.SetReadDeadline(time.Now())
	close(c.exited)
}

// run reads messages until the driver exits, closes its output or violates the protocol. It kills a
// driver that violates the protocol at once, and one that closes its output after the grace. Then
// it waits for the driver to exit.
func (c *child) run(handle func(*felixpb.FromDataplane), atEnd func()) {
	defer atEnd()
	defer close(c.ended)
	err := c.read(handle)
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.kill(fmt.Errorf("the driver violates the protocol: %w", err))
	}
	timer := time.NewTimer(c.cfg.Grace)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		c.kill(errors.New("the driver has closed its output"))
		<-c.exited
	}
	_, _ = c.in.Close(), c.out.Close()
}

// read calls handle with each message. It returns why it cannot read the next one.
func (c *child) read(handle func(*felixpb.FromDataplane)) error {
	r := bufio.NewReader(c.out)
	for {
		m := &felixpb.FromDataplane{}
		if err := readFrame(r, c.cfg.MaxMessage, m); err != nil {
			return err
		}
		handle(m)
	}
}

// kill kills the process. It records the reason of the first call.
func (c *child) kill(reason error) {
	c.mu.Lock()
	if c.killReason == nil {
		c.killReason = reason
	}
	c.mu.Unlock()
	_ = c.cmd.Process.Kill()
}

// failed returns why the child is ending or has ended, or nil if neither holds.
func (c *child) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killReason != nil {
		return c.killReason
	}
	select {
	case <-c.ended:
		return c.exitError()
	default:
		return nil
	}
}

// exitError returns that the process has ended, with its exit status. It may be called once exited
// is closed.
func (c *child) exitError() error {
	if c.waitErr != nil {
		return fmt.Errorf("the driver has ended: %w", c.waitErr)
	}
	return errors.New("the driver has ended")
}

// writeError returns why a message was not written. A driver that has closed its input usually
// exits: then the error is that of exitError.
func (c *child) writeError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the driver did not read for %s: %w", c.cfg.Timeout, err)
	case errors.Is(err, syscall.EPIPE):
		const exitTime = 200 * time.Millisecond // Apply waits for it, and other dataplanes wait for Apply
		if c.endsWithin(min(exitTime, c.cfg.Grace)) {
			return c.exitError()
		}
		return fmt.Errorf("the driver has closed its input: %w", err)
	case errors.Is(err, os.ErrClosed):
		select {
		case <-c.exited: // run has closed the pipe
			return c.exitError()
		default:
		}
	}
	return err
}

// endsWithin waits for the child to end, and reports whether it does so within a time.
func (c *child) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ended:
		return true
	case <-timer.C:
		return false
	}
}

// chunk is how many bytes are written at a time.
const chunk = 64 << 10

// send numbers a message and appends it to buf, which it flushes from the size of a chunk on. An
// error kills the child.
func (c *child) send(m *felixpb.ToDataplane) {
	m.SequenceNumber = c.sent.Load()
	var err error
	if c.buf, err = appendFrame(c.buf, m); err != nil {
		c.kill(fmt.Errorf("encode message: %w", err))
		return
	}
	c.sent.Add(1)
	if len(c.buf) >= chunk {
		c.flush()
	}
}

// flush writes buf.
func (c *child) flush() {
	for rest := c.buf; len(rest) > 0 && c.failed() == nil; {
		n := min(len(rest), chunk)
		err := c.in.SetWriteDeadline(time.Now().Add(c.cfg.Timeout))
		if err == nil {
			_, err = c.in.Write(rest[:n])
		}
		if err != nil {
			c.kill(c.writeError(err))
		}
		rest = rest[n:]
	}
	if c.buf = c.buf[:0]; cap(c.buf) > 16*chunk {
		c.buf = nil
	}
}

// write calls do, and writes the messages that do sends. If ctx is done before the end, it kills
// the child.
func (c *child) write(ctx context.Context, do func(translate.Send)) {
	stop := context.AfterFunc(ctx, func() { c.kill(context.Cause(ctx)) })
	defer stop()
	do(c.send)
	c.flush()
}

// close closes the input of the driver, waits until it has ended, and kills it after the grace. It
// returns the reason of a kill and the exit status, if that is not 0.
func (c *child) close() error {
	_ = c.in.Close()
	if !c.endsWithin(c.cfg.Grace) {
		c.kill(errors.New("the driver did not exit after its input was closed"))
		<-c.ended
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.killReason, c.waitErr)
}
