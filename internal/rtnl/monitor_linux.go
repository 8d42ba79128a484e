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

// Monitor receives notifications of changes in a namespace. It is not safe for concurrent use,
// except that Wait may run concurrently with the other methods.
type Monitor struct {
	conn  *Conn
	event Event
}

// Listen returns a Monitor. When a system call makes a change, the kernel sends the notification of
// this change before the system call returns. There is one exception: the kernel reports a new IPv6
// address only once the address can be used.
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

// numbers returns the kernel's numbers of the multicast groups of a group.
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

// Close closes the Monitor.
func (m *Monitor) Close() error { return m.conn.Close() }

// Ignore makes the kernel leave out notifications of the caller's own changes of routes, neighbours
// and rules. The argument port is the port number of the socket by which the caller makes these
// changes (Conn.Port). The Monitor still receives all changes of interfaces and addresses.
func (m *Monitor) Ignore(port uint32) error {
	const portOffset = 12 // offset of nlmsg_pid in a message
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

// bigEndian returns the number that the filter reads from the bytes of v.
func bigEndian(v uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, v))
}

// typeOffset returns the offset of the lower byte of nlmsg_type. All types are below 256.
func typeOffset() uint32 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return 4
	}
	return 5
}

// Poll calls the function each(event) for every event since the last call of Poll, in order. It
// does not wait for events. The function must not keep the event. If events are missing, Poll
// returns true as the first result. In this case, the kernel has dropped messages, or a message
// could not be parsed.
func (m *Monitor) Poll(each func(*Event)) (missed bool, err error) {
	return m.conn.link.Poll(func(msg netlink.Message) error {
		known, err := m.event.parse(msg)
		if known && err == nil {
			each(&m.event)
		}
		return err
	})
}

// parse parses a message. known is false for an object that is not reported.
func (e *Event) parse(m netlink.Message) (known bool, err error) {
	*e = Event{Replace: m.Flags&unix.NLM_F_REPLACE != 0}
	switch m.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) > 0 && m.Data[0] != unix.AF_UNSPEC {
			return false, nil // a notification of a bridge about a port, which stays an interface
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
		// Up to Linux 6.12, the notification of the VXLAN device is followed by a second one
		// without the destination.
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

// parseNetconf parses a struct netconfmsg, which is padded to four bytes, and its attributes.
func (e *Event) parseNetconf(data []byte) (known bool, err error) {
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

// Wait waits until there are events to poll. When ctx is done, it returns the error of ctx.
func (m *Monitor) Wait(ctx context.Context) error {
	sock := m.conn.sock
	for {
		// In this order: a context that ends from now on sets the deadline again.
		if err := sock.SetDeadline(time.Time{}); err != nil {
			return fmt.Errorf("rtnl: wait: %w", err)
		}
		stop := context.AfterFunc(ctx, func() {
			_ = sock.SetDeadline(time.Unix(1, 0)) // fails only after Close, when nothing waits
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := sock.Wait()
		stop()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded): // the deadline of an earlier call
		case err != nil:
			return fmt.Errorf("rtnl: wait: %w", err)
		default:
			return nil
		}
	}
}
