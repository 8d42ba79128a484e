// SPDX-License-Identifier: Apache-2.0

package nflog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
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
	cfgBuffer  = 3
	cfgTimeout = 4
	cfgQueue   = 5
	bind       = 1
	copyPacket = 2
	copyLength = 128 // enough for the headers

	// The kernel sends packets together: up to queueLength, or what came in queueTime, in hundredths of a second.
	queueLength = 50
	queueTime   = 1
	// bufferSize is that of one datagram: queueLength times a message of about 300 bytes.
	bufferSize = 16 << 10

	attrIn, attrOut, attrPayload, attrPrefix = 4, 5, 9, 10

	headerLength = 4
)

// Follow calls do for every packet that is logged until ctx is done or do fails.
func Follow(ctx context.Context, cfg Config, do func(Entry) error) error {
	sock, err := netlink.Open(netlink.Config{Family: netlink.Netfilter, NetNS: cfg.NetNS})
	if err != nil {
		return fmt.Errorf("nflog: %w", err)
	}
	conn := netlink.NewConn(sock)
	defer func() { _ = conn.Close() }()
	if err := join(conn, cfg.Group); err != nil {
		return fmt.Errorf("nflog: group %d: %w", cfg.Group, err)
	}
	if cfg.Started != nil {
		cfg.Started()
	}
	stop := context.AfterFunc(ctx, func() { _ = sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for missed := 0; ; {
		datagram, err := conn.Receive()
		if errors.Is(err, unix.EAGAIN) {
			err = sock.Wait()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			missed++
			continue
		case err != nil:
			return fmt.Errorf("nflog: group %d: %w", cfg.Group, err)
		}
		for len(datagram) > 0 {
			var m netlink.Message
			var e Entry
			if datagram, err = m.Read(datagram); err == nil && m.Type == msgPacket {
				e, err = parse(m.Data)
			}
			if err != nil {
				return fmt.Errorf("nflog: group %d: %w", cfg.Group, err)
			}
			if m.Type != msgPacket {
				continue
			}
			e.Missed, missed = missed, 0
			if err := do(e); err != nil {
				return err
			}
		}
	}
}

// join has the kernel log to a group for this socket.
func join(conn *netlink.Conn, group uint16) error {
	request := conn.Request(msgConfig, unix.AF_UNSPEC, 0, byte(group>>8), byte(group))
	request.Bytes(cfgCommand, []byte{bind})
	request.Bytes(cfgMode, append(binary.BigEndian.AppendUint32(nil, copyLength), copyPacket, 0))
	request.Uint32(cfgBuffer, bufferSize)
	request.Uint32(cfgTimeout, queueTime)
	request.Uint32(cfgQueue, queueLength)
	return conn.Ask(func(netlink.Message) error { return nil })
}

// parse reads the body of a message.
func parse(data []byte) (e Entry, err error) {
	var d netlink.Decoder
	d.Begin(data, headerLength)
	for d.Next() {
		switch d.Type {
		case attrIn:
			e.In = d.Uint32()
		case attrOut:
			e.Out = d.Uint32()
		case attrPrefix:
			e.Prefix = netlink.Text(d.Value)
		case attrPayload:
			e.readPacket(d.Value)
		}
	}
	return e, d.Err
}
