// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Monitor listens to what happens to the rulesets of one network namespace. The kernel has queued all there is to say
// about a transaction before the call returns that made it.
//
// Wait and Wake may be called from any goroutine at any time; the others are not safe for
// concurrent use with each other.
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

// Listen begins to listen. Errors: those of the system calls.
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

// Close ends it. Errors: that of the system call.
func (m *Monitor) Close() error { return m.sock.Close() }

// Pause stops listening for a while. The kernel writes down every element of a transaction for
// listeners, a page each, which a large one can do without. What happens until Resume is not heard
// of.
func (m *Monitor) Pause() error {
	if err := m.sock.Leave(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("nfnl: stop listening to nf_tables: %w", err)
	}
	return nil
}

// Resume listens again after Pause.
func (m *Monitor) Resume() error {
	if err := m.sock.Join(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("nfnl: listen to nf_tables: %w", err)
	}
	return nil
}

// Wait returns once there are events, or with an error after Wake or Close.
func (m *Monitor) Wait() error { return m.sock.Wait() }

// Wake ends all waiting, now and for good.
func (m *Monitor) Wake() {
	// It cannot fail on an open socket, and nobody waits for a closed one.
	_ = m.sock.SetDeadline(time.Unix(1, 0))
}

// Events hands over what happened since the last call, in order, without waiting. missed means that there was more,
// of which nothing is known.
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
