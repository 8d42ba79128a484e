// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Monitor receives notifications of changes of the ruleset of one network namespace. When the
// system call of a transaction returns, the kernel has already queued all notifications of this
// transaction.
//
// Wait and Wake may be called from any goroutine at any time. Only one goroutine at a time may call
// the other methods.
type Monitor struct {
	sock *netlink.KernelSocket
	link *netlink.Conn
}

// Open returns a netlink socket to netfilter. Errors: those of the system calls.
func Open(cfg Config) (*netlink.KernelSocket, error) {
	sock, err := netlink.Open(netlink.Config{Family: netlink.Netfilter, NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("nfnl: %w", err)
	}
	return sock, nil
}

// Listen returns a new Monitor. Errors: those of the system calls.
func Listen(cfg Config) (*Monitor, error) {
	sock, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	m := &Monitor{sock: sock, link: netlink.NewConn(sock)}
	if err := m.Resume(); err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	return m, nil
}

// Close closes the socket. Errors: that of the system call.
func (m *Monitor) Close() error { return m.sock.Close() }

// Pause stops the notifications until Resume. The Monitor does not learn of changes that are made
// in between. Call Pause before a large transaction: if no process listens, the kernel writes no
// notifications, and the transaction is faster. (The kernel writes one notification for each
// element, and each takes a page of memory.)
func (m *Monitor) Pause() error {
	if err := m.sock.Leave(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("nfnl: stop listening to nf_tables: %w", err)
	}
	return nil
}

// Resume starts the notifications again after Pause.
func (m *Monitor) Resume() error {
	if err := m.sock.Join(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("nfnl: listen to nf_tables: %w", err)
	}
	return nil
}

// Wait returns once there are events. After Wake or Close, it returns with an error.
func (m *Monitor) Wait() error { return m.sock.Wait() }

// Wake ends all current and future calls of Wait.
func (m *Monitor) Wake() {
	// This cannot fail on an open socket. On a closed socket, no call waits.
	_ = m.sock.SetDeadline(time.Unix(1, 0))
}

// Events calls its parameter, the function each(), once for every event that has arrived since the
// last call of Events, in order. Events does not wait for events. The result missed reports whether
// notifications were lost.
func (m *Monitor) Events(each func(Event)) (missed bool, err error) {
	missed, err = m.link.Poll(handler(func(m Message) error {
		each(eventOf(m))
		return nil
	}))
	if err != nil {
		err = fmt.Errorf("nfnl: listen: %w", err)
	}
	return missed, err
}
