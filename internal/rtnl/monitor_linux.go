// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Monitor hears what happens in a namespace. It is not safe for concurrent use, but Wait may run
// beside the other methods.
type Monitor struct {
	conn  *Conn
	event Event
}

// Listen begins to listen. The kernel announces a change before the call that makes it returns; an
// IPv6 address, once it can be used.
func Listen(cfg Config, groups ...Group) (*Monitor, error) {
	conn, err := Dial(cfg)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		for _, number := range g.numbers() {
			err = errors.Join(err, conn.sock.Join(number))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rtnl: listen: %w", err), conn.Close())
	}
	return &Monitor{conn: conn}, nil
}

// numbers are the kernel's names for a group.
func (g Group) numbers() []uint32 {
	switch g {
	case GroupLinks:
		return []uint32{unix.RTNLGRP_LINK}
	case GroupAddresses:
		return []uint32{unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}
	case GroupRoutes:
		return []uint32{unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE}
	case GroupNeighbours:
		return []uint32{unix.RTNLGRP_NEIGH}
	case GroupNetconf:
		return []uint32{unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF}
	default:
		return []uint32{unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE}
	}
}

// Close ends it.
func (m *Monitor) Close() error { return m.conn.Close() }

// Ignore has the kernel leave out changes to routes, neighbours and rules that were made through
// the socket with a port number: the caller's own. Changes to interfaces and addresses are told
// whoever made them.
func (m *Monitor) Ignore(port uint32) error {
	const portOffset = 12 // of nlmsg_pid in a message
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: portOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 3, K: bigEndian(port)},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: typeOffset()},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jt: 0, Jf: 1, K: unix.RTM_NEWROUTE},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: ^uint32(0)},
	}
	err := m.conn.sock.Control(func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if err != nil {
		return fmt.Errorf("rtnl: filter own changes: %w", err)
	}
	return nil
}

// bigEndian returns the number that the bytes of v are when read as the filter reads them.
func bigEndian(v uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, v))
}

// typeOffset is where the lower byte of nlmsg_type is, all of the types' numbers.
func typeOffset() uint32 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return 4
	}
	return 5
}

// Poll hands all that happened since the last call to each, in order. It does not wait. each must
// not keep its argument. missed means that there was more, of which nothing is known: the kernel
// had to drop messages, or one could not be read.
func (m *Monitor) Poll(each func(*Event)) (missed bool, err error) {
	return m.conn.link.Poll(func(msg netlink.Message) error {
		heard, err := m.event.parse(msg)
		if heard && err == nil {
			each(&m.event)
		}
		return err
	})
}

// parse reports whether the message is of an object that a Monitor tells of.
func (e *Event) parse(m netlink.Message) (heard bool, err error) {
	*e = Event{Replace: m.Flags&unix.NLM_F_REPLACE != 0}
	switch m.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) > 0 && m.Data[0] != unix.AF_UNSPEC {
			return false, nil // what a bridge says of its ports: those stay interfaces
		}
		e.Group, e.Gone = GroupLinks, m.Type == unix.RTM_DELLINK
		e.Link, err = parseLink(m.Data)
		return true, err
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		e.Group, e.Gone = GroupAddresses, m.Type == unix.RTM_DELADDR
		e.Address, err = parseAddress(m.Data)
		return e.Address.Prefix.IsValid(), err
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		e.Group, e.Gone = GroupRoutes, m.Type == unix.RTM_DELROUTE
		err = parseRoute(m.Data, &e.Route)
		return !e.Route.Cached, err
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		e.Group, e.Gone = GroupNeighbours, m.Type == unix.RTM_DELNEIGH
		e.Neighbour, err = parseNeighbour(m.Data)
		// Up to Linux 6.12, a second notification follows that of the VXLAN device, without the destination.
		n := &e.Neighbour
		if err == nil && !e.Gone && n.Forward && !n.Extra && !n.Addr.IsValid() {
			return false, nil
		}
		return err != nil || slices.Contains([]byte{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE}, m.Data[0]), err
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		e.Group, e.Gone = GroupRules, m.Type == unix.RTM_DELRULE
		e.Rule, err = parseRule(m.Data)
		return true, err
	case unix.RTM_NEWNETCONF:
		e.Group = GroupNetconf
		return e.parseNetconf(m.Data)
	}
	return false, nil
}

// parseNetconf reads a struct netconfmsg, which is padded to four bytes, and its attributes.
func (e *Event) parseNetconf(data []byte) (heard bool, err error) {
	const (
		headerLen = 4
		attrIndex = 1 // NETCONFA_IFINDEX
	)
	var a netlink.Decoder
	header := a.Begin(data, headerLen)
	for a.Next() {
		if a.Type == attrIndex {
			e.Index = int(int32(a.Native32()))
		}
	}
	return header[0] == unix.AF_INET || header[0] == unix.AF_INET6, a.Err
}

// Wait waits until there is something to poll, or until ctx is done: then it returns its error.
func (m *Monitor) Wait(ctx context.Context) error {
	sock := m.conn.sock
	for {
		// In this order: a context that ends from here on sets the deadline again.
		if err := sock.SetDeadline(time.Time{}); err != nil {
			return fmt.Errorf("rtnl: wait: %w", err)
		}
		stop := context.AfterFunc(ctx, func() {
			_ = sock.SetDeadline(time.Unix(1, 0)) // only fails once it is closed, when nothing waits
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := sock.Wait()
		stop()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded): // of an earlier call's context
		case err != nil:
			return fmt.Errorf("rtnl: wait: %w", err)
		default:
			return nil
		}
	}
}
