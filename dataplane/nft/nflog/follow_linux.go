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

// Config configures Follow.
type Config struct {
	// Group is the number of the nflog group.
	Group uint16
	// NetNS is a file descriptor of the network namespace. 0 means the namespace of the process.
	NetNS int
	// Started is called once the socket follows the group. Follow reports every packet that is
	// logged after that. Optional.
	Started func()
}

// Numbers of nfnetlink_log, from linux/netfilter/nfnetlink_log.h.
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
	copyLength = 128 // bytes of each packet; enough for the headers

	// The kernel sends a datagram once it has queueLength packets, or queueTime hundredths of a
	// second after the first.
	queueLength = 50
	queueTime   = 1
	// bufferSize is the size of a datagram in bytes: queueLength times a message of about 300
	// bytes.
	bufferSize = 16 << 10

	attrIn, attrOut, attrPayload, attrPrefix = 4, 5, 9, 10

	headerLength = 4
)

// Follow calls do for every logged packet, until ctx is done or do returns an error. If do is slow,
// the kernel drops entries: see Entry.Missed.
//
// Errors: the error of ctx, the error of do, and those of the system calls.
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

// join binds the socket to a group, and sets the parameters of the group.
func join(conn *netlink.Conn, group uint16) error {
	request := conn.Request(msgConfig, unix.AF_UNSPEC, 0, byte(group>>8), byte(group))
	request.Bytes(cfgCommand, []byte{bind})
	request.Bytes(cfgMode, append(binary.BigEndian.AppendUint32(nil, copyLength), copyPacket, 0))
	request.Uint32(cfgBuffer, bufferSize)
	request.Uint32(cfgTimeout, queueTime)
	request.Uint32(cfgQueue, queueLength)
	return conn.Query(func(netlink.Message) error { return nil })
}

// parse parses the body of a packet message.
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
