// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Probe is one attempt to reach a server.
type Probe struct {
	// From is the network namespace to send from.
	From *netns.NS
	// To is the server to reach.
	To *Server
	// Flow is the flow to begin: TCP, UDP, ICMP echo or ICMPv6 echo. For an echo, SrcPort is the
	// identifier.
	Flow verdict.Flow
	// Wait is how long to wait for an answer.
	Wait time.Duration
}

// Outcome is the result of a probe.
type Outcome uint8

// The outcomes. The zero value is none of them.
const (
	// Passed: the right answer arrived.
	Passed Outcome = iota + 1
	// Blocked: no answer arrived, and as far as is known the server received nothing.
	Blocked
	// Broken: any other failure.
	Broken
)

// Answer is an outcome. If it is Broken, it has the reason.
type Answer struct {
	Outcome Outcome
	Err     error
}

// Send sends a probe and waits for the answer.
func Send(ctx context.Context, p Probe) Answer {
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	attempt := p.udp
	switch p.Flow.Protocol {
	case policy.ProtocolTCP:
		attempt = p.tcp
	case policy.ProtocolICMP, policy.ProtocolICMPv6:
		attempt = p.echo
	}
	err := p.From.Do(func() error { return attempt(ctx) })
	var network net.Error
	switch {
	case err == nil:
		return Answer{Outcome: Passed}
	case !errors.As(err, &network) || !network.Timeout():
		return Answer{Outcome: Broken, Err: err}
	case p.To.Received(p.source()):
		return Answer{Outcome: Broken, Err: errors.New("the request arrived, but no answer came back")}
	}
	return Answer{Outcome: Blocked}
}

func (p Probe) source() netip.AddrPort { return netip.AddrPortFrom(p.Flow.Src, p.Flow.SrcPort) }

func (p Probe) destination() netip.AddrPort { return netip.AddrPortFrom(p.Flow.Dst, p.Flow.DstPort) }

// tcp connects and reads the server's name. Its error is a time-out only if the connection was not
// established.
func (p Probe) tcp(ctx context.Context) error {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(p.source())}
	conn, err := dialer.DialContext(ctx, "tcp", p.destination().String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := setDeadline(ctx, conn); err != nil {
		return err
	}
	name, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Errorf("connected, then: %v", err) // not wrapped, so that a time-out is not taken for Blocked
	}
	return p.checkName(name)
}

// udp sends a datagram and reads the server's name.
func (p Probe) udp(ctx context.Context) error {
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(p.source()), net.UDPAddrFromAddrPort(p.destination()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := setDeadline(ctx, conn); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "who is there"); err != nil {
		return err
	}
	buf := make([]byte, 512)
	n, err := conn.Read(buf)
	if err != nil {
		return err
	}
	return p.checkName(buf[:n])
}

func (p Probe) checkName(name []byte) error {
	if string(name) != p.To.name {
		return fmt.Errorf("answered by %q instead of %q", name, p.To.name)
	}
	return nil
}

// setDeadline sets the deadline of the context on the connection.
func setDeadline(ctx context.Context, conn net.Conn) error {
	deadline, _ := ctx.Deadline()
	return conn.SetDeadline(deadline)
}
