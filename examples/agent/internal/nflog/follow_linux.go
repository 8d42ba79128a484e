// SPDX-License-Identifier: Apache-2.0

package nflog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Config says what to follow.
type Config struct {
	// Group of nflog.
	Group uint16
	// NetNS is a file descriptor of the network namespace. 0 means that of the process.
	NetNS int
	// Started is called once the kernel has accepted the request: from then on every packet counts.
	// Optional.
	Started func()
}

// nfnetlink_log's own numbers, as of linux/netfilter/nfnetlink_log.h.
const (
	subsystem  = 4 << 8
	msgPacket  = subsystem
	msgConfig  = subsystem | 1
	cfgCommand = 1
	cfgMode    = 2
	cfgQueue   = 5
	bind       = 1
	copyPacket = 2
	copyLength = 128 // enough for the headers

	attrIn, attrOut, attrPayload, attrPrefix = 4, 5, 9, 10

	headerLength = 4
	bufferBytes  = 1 << 20
)

// Follow calls do for every packet that is logged until ctx is done or do fails.
func Follow(ctx context.Context, cfg Config, do func(Entry) error) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: cfg.NetNS})
	if err != nil {
		return fmt.Errorf("nflog: open: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadBuffer(bufferBytes) // more than the limit is not given; less will do
	if err := join(conn, cfg.Group); err != nil {
		return fmt.Errorf("nflog: group %d: %w", cfg.Group, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	missed, answers := 0, 0
	for {
		messages, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			missed++
			continue
		case err != nil:
			return fmt.Errorf("nflog: group %d: %w", cfg.Group, err)
		}
		for _, m := range messages {
			if m.Header.Type == netlink.Error { // without an error: one of the answers to join
				if answers++; answers == joinRequests && cfg.Started != nil {
					cfg.Started()
				}
			}
			if m.Header.Type != msgPacket || len(m.Data) < headerLength {
				continue
			}
			e, err := parse(m.Data[headerLength:])
			if err != nil {
				return fmt.Errorf("nflog: group %d: %w", cfg.Group, err)
			}
			e.Missed, missed = missed, 0
			if err := do(e); err != nil {
				return err
			}
		}
	}
}

// joinRequests is how many requests join sends; the kernel answers each.
const joinRequests = 3

// join asks for what is logged to a group. The answers come with the packets.
func join(conn *netlink.Conn, group uint16) error {
	mode := binary.BigEndian.AppendUint32(nil, copyLength)
	for _, a := range [joinRequests]netlink.Attribute{
		{Type: cfgCommand, Data: []byte{bind}},
		{Type: cfgMode, Data: append(mode, copyPacket, 0)},
		{Type: cfgQueue, Data: binary.BigEndian.AppendUint32(nil, 1)}, // each packet as it comes
	} {
		attributes, err := netlink.MarshalAttributes([]netlink.Attribute{a})
		if err != nil {
			return err
		}
		header := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, 0}, group)
		_, err = conn.Send(netlink.Message{
			Header: netlink.Header{Type: msgConfig, Flags: netlink.Request | netlink.Acknowledge},
			Data:   append(header, attributes...),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// parse reads one message.
func parse(data []byte) (e Entry, err error) {
	attributes, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return e, err
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		switch attributes.Type() {
		case attrIn:
			e.In = attributes.Uint32()
		case attrOut:
			e.Out = attributes.Uint32()
		case attrPrefix:
			e.Prefix = attributes.String()
		case attrPayload:
			e.readPacket(attributes.Bytes())
		}
	}
	return e, attributes.Err()
}
