// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// sockets are the connection to the kernel.
type sockets struct {
	namespace int
	conn      *rtnl.Conn    // for dumps and changes; nil until needed, and after it failed
	monitor   *rtnl.Monitor // for notifications; not nil when conn is not
	// batch has the messages of the next send; its memory is reused.
	batch rtnl.Batch
	// newSender returns conn. Tests replace it.
	newSender func(*rtnl.Conn) sender
}

// sender sends changes to the kernel, as rtnl.Conn.Do does.
type sender interface {
	Do(b *rtnl.Batch, failed func(i int, err error)) error
}

func newSockets(namespace int) *sockets {
	return &sockets{namespace: namespace, newSender: func(c *rtnl.Conn) sender { return c }}
}

// open opens the sockets. The monitor reports all changes, except those that this Keeper itself
// makes to routes, entries and rules.
func (s *sockets) open() error {
	cfg := rtnl.Config{NetNS: s.namespace}
	monitor, err := rtnl.Listen(cfg, rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes, rtnl.GroupNeighbours,
		rtnl.GroupRules, rtnl.GroupNetconf)
	if err != nil {
		return fmt.Errorf("routes: connect: %w", err)
	}
	conn, err := rtnl.Dial(cfg)
	if err != nil {
		return fmt.Errorf("routes: connect: %w", errors.Join(err, monitor.Close()))
	}
	if err := monitor.Ignore(conn.Port()); err != nil {
		return fmt.Errorf("routes: connect: %w", errors.Join(err, monitor.Close(), conn.Close()))
	}
	s.conn, s.monitor = conn, monitor
	return nil
}

func (s *sockets) close() error {
	conn, monitor := s.conn, s.monitor
	s.conn, s.monitor = nil, nil
	return errors.Join(monitor.Close(), conn.Close())
}

// send makes the changes of the batch. For each change that the kernel refuses, it calls failed
// with the index of the change and the kernel's error.
func (s *sockets) send(failed func(i int, err error)) error {
	if s.batch.Len() == 0 {
		return nil
	}
	return s.newSender(s.conn).Do(&s.batch, failed)
}
