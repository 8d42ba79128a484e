// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// retransmit is the time after which the client sends a packet again.
const retransmit = 3 * time.Second

// errProtocol reports that the peer's kernel has neither SCTP nor a raw socket for it.
var errProtocol = syscall.ENOPROTOOPT

// connect makes an association with the server of the flags, sends the data and waits for the
// answer. It returns the exit code, and writes a failure to stderr in the words of the real
// agnhost.
func connect(flags connectFlags, stderr io.Writer) int {
	// An address of TCP is written and resolved like one of SCTP.
	resolved, err := net.ResolveTCPAddr("tcp", flags.destination)
	if err != nil {
		fmt.Fprintf(stderr, "DNS: %v\n", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), flags.timeout)
	defer cancel()
	err = exchange(ctx, resolved.AddrPort(), flags.data+"\n")
	switch {
	case err == nil:
		return 0
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		fmt.Fprint(stderr, "TIMEOUT\n")
	default:
		fmt.Fprintf(stderr, "OTHER: %v\n", err)
	}
	return 1
}

// client is the client's end of an association.
type client struct {
	conn        *net.IPConn // connected: the kernel passes on only packets of the peer, and its ICMP errors
	local, peer uint16      // ports
	own         initiation
}

// exchange makes an association, sends the data, waits for data, and aborts the association. It
// returns syscall.ECONNREFUSED if the peer aborts the handshake, and io.EOF if the peer aborts
// later. It returns errProtocol if the peer has no SCTP, and os.ErrDeadlineExceeded if the deadline
// of ctx passes.
func exchange(ctx context.Context, peer netip.AddrPort, data string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	addr := peer.Addr().Unmap()
	conn, err := net.DialIP(networkOf(addr), nil, &net.IPAddr{IP: addr.AsSlice(), Zone: addr.Zone()})
	if err != nil {
		return fmt.Errorf("raw socket: %w", err)
	}
	defer conn.Close()
	c := client{
		conn: conn, local: ephemeralPort(), peer: peer.Port(),
		own: initiation{tag: randomTag(), tsn: rand.Uint32()},
	}
	deadline, _ := ctx.Deadline()

	answer, err := c.roundTrip(deadline, 0, []chunk{c.own.chunk(chunkInit, nil)}, chunkInitAck)
	if errors.Is(err, io.EOF) {
		return syscall.ECONNREFUSED
	}
	if err != nil {
		return err
	}
	server, cookie, err := parseInitiation(answer)
	if err != nil || len(cookie) == 0 {
		return errors.Join(errMalformed, err)
	}
	echo := []chunk{{kind: chunkCookieEcho, value: cookie}, dataChunk(c.own.tsn, data)}
	if _, err := c.roundTrip(deadline, server.tag, echo, chunkData); err != nil {
		return err
	}
	return c.send(server.tag, []chunk{{kind: chunkAbort}})
}

// roundTrip sends a packet, again after each retransmission timeout, until a packet with a chunk of
// the type wanted arrives. It returns the value of that chunk, or io.EOF for ABORT.
func (c client) roundTrip(deadline time.Time, tag uint32, chunks []chunk, want uint8) ([]byte, error) {
	for {
		if err := c.send(tag, chunks); err != nil {
			return nil, err
		}
		wait := time.Now().Add(retransmit)
		last := !wait.Before(deadline)
		if last {
			wait = deadline
		}
		value, err := c.receive(wait, want)
		if last || !errors.Is(err, os.ErrDeadlineExceeded) {
			return value, err
		}
	}
}

func (c client) send(tag uint32, chunks []chunk) error {
	p := packet{source: c.local, destination: c.peer, tag: tag, chunks: chunks}
	_, err := c.conn.Write(p.encode())
	return sendError(err)
}

// receive waits for a packet of this association with a chunk of the type wanted, or ABORT.
func (c client) receive(deadline time.Time, want uint8) ([]byte, error) {
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return nil, fmt.Errorf("raw socket: %w", err)
	}
	buffer := make([]byte, maxPacket)
	for {
		n, _, err := c.conn.ReadFromIP(buffer)
		switch {
		case errors.Is(err, syscall.ENOPROTOOPT), errors.Is(err, syscall.EPROTO):
			return nil, errProtocol
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, err
		case isICMP(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("raw socket: %w", err)
		}
		p, err := decode(buffer[:n])
		if err != nil || p.source != c.peer || p.destination != c.local || p.tag != c.own.tag {
			continue
		}
		if value, ok := p.find(want); ok {
			return value, nil
		}
		if _, ok := p.find(chunkAbort); ok {
			return nil, io.EOF
		}
	}
}

// sendError returns the error of a write, without those that an earlier packet has caused. A packet
// that a filter of this host drops is as good as one that is lost on the way.
func sendError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOPROTOOPT), errors.Is(err, syscall.EPROTO):
		return errProtocol
	case err == nil, isICMP(err), errors.Is(err, syscall.EPERM):
		return nil
	}
	return fmt.Errorf("raw socket: %w", err)
}

// isICMP reports whether err comes from an ICMP error that does not end an attempt to connect.
func isICMP(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EACCES, syscall.EMSGSIZE,
		syscall.EOPNOTSUPP,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// networkOf returns the name of the raw network of an address's family.
func networkOf(addr netip.Addr) string {
	if addr.Is4() {
		return fmt.Sprintf("ip4:%d", protocolSCTP)
	}
	return fmt.Sprintf("ip6:%d", protocolSCTP)
}

// ephemeralPort returns a random port of Linux's default range for clients.
func ephemeralPort() uint16 {
	return uint16(32768 + rand.IntN(60999-32768+1))
}

// randomTag returns a random verification tag, which is never 0.
func randomTag() uint32 {
	return 1 + rand.Uint32N(1<<32-1)
}
