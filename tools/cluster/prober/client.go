// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

const (
	// If two ticks are further apart than stalled, the host did not schedule this process. The
	// answers of that time have not been read yet.
	stalled = time.Second
	// deniedLimit is how long a denied probe waits for an answer. A SYN is sent again meanwhile.
	deniedLimit = 3500 * time.Millisecond
	// The times between two probes of new flows, by target.
	newUDPInterval = 400 * time.Millisecond
	newTCPInterval = time.Second
	reportInterval = 5 * time.Second
	// maxTargets exceeds the number of targets of any client. The ports of a client start at its
	// start time × maxTargets, so a restarted client uses no port of connections that the kernel
	// still tracks.
	maxTargets = 20
	// countsPerLine keeps lines below the 16 KiB at which containerd splits them.
	countsPerLine = 40
)

// client sends probes and counts them.
type client struct {
	name string
	out  *printer

	mu       sync.Mutex
	long     map[probe.Target]*longLivedFlow // the key has no Expect
	closing  []*longLivedFlow
	counts   map[probe.Flow]*probe.Count
	losses   []probe.Loss
	sequence uint64
	port     int // of the last TCP connection, from 0
}

// longLivedFlow is a UDP socket that is used until its target is removed.
type longLivedFlow struct {
	flow    probe.Flow
	conn    net.Conn
	pending []sent // in the order of their sequence numbers, without gaps
	next    uint64
	backend string // that answered last
}

type sent struct {
	at       time.Time
	sequence uint64
	flow     probe.Flow
	answered bool
	backend  string // that had answered last when the probe was sent
}

func newClient(name string, out *printer) *client {
	return &client{
		name: name, out: out, long: map[probe.Target]*longLivedFlow{}, counts: map[probe.Flow]*probe.Count{},
		port: int(time.Now().Unix() * maxTargets % probe.Ports),
	}
}

// run sends probes until ctx is done.
func (c *client) run(ctx context.Context, file string, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var targets []probe.Target
	var modified, lastTick, lastRead, lastReport, lastUDP, lastTCP time.Time
	var nextUDP, nextTCP int // of targets, in the current round
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case now = <-tick.C:
		}
		if now.Sub(lastRead) > 500*time.Millisecond {
			lastRead = now
			if info, err := os.Stat(file); err == nil && !info.ModTime().Equal(modified) {
				modified = info.ModTime()
				targets = readTargets(file, targets)
				c.setTargets(targets)
				nextUDP, nextTCP, lastUDP, lastTCP = 0, 0, now, now
			}
			if time.Since(lastTick) < stalled {
				c.sweep(now)
			}
		}
		lastTick = time.Now()
		if now.Sub(lastReport) > reportInterval {
			lastReport = now
			c.report()
		}
		c.sendLongLived(now)
		nextUDP, lastUDP = c.startNew(targets, nextUDP, lastUDP, now, newUDPInterval, c.probeUDP)
		nextTCP, lastTCP = c.startNew(targets, nextTCP, lastTCP, now, newTCPInterval, c.probeTCP)
	}
}

// startNew probes the targets that are due when a round over all of them takes an interval. It
// returns the next target and the start of the round.
func (c *client) startNew(targets []probe.Target, next int, round, now time.Time, interval time.Duration,
	run func(target probe.Target, sequence uint64),
) (int, time.Time) {
	due := int(now.Sub(round) * time.Duration(len(targets)) / interval)
	for ; next < min(due, len(targets)); next++ {
		c.mu.Lock()
		c.sequence++
		sequence := c.sequence
		c.mu.Unlock()
		go run(targets[next], sequence)
	}
	if next >= len(targets) && now.Sub(round) >= interval {
		return 0, now
	}
	return next, round
}

// readTargets returns the targets of a file, or the old ones if it cannot be read.
func readTargets(file string, old []probe.Target) []probe.Target {
	content, err := os.ReadFile(file)
	if err != nil {
		return old
	}
	var read probe.Targets
	if err := json.Unmarshal(content, &read); err != nil {
		return old
	}
	return read.Targets
}

// setTargets starts the long-lived flows of new targets and ends those of removed targets.
func (c *client) setTargets(targets []probe.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[probe.Target]bool{}
	for _, target := range targets {
		key := target
		key.Expect = ""
		wanted[key] = true
		if f := c.long[key]; f != nil {
			f.flow.Expect = target.Expect
			continue
		}
		conn, err := net.Dial("udp", net.JoinHostPort(target.Address, strconv.Itoa(probe.UDPPort)))
		if err != nil {
			continue // no address of this family
		}
		_ = enlargeBuffer(conn.(*net.UDPConn))
		f := &longLivedFlow{flow: flowOf(target, probe.UDP), conn: conn}
		c.long[key] = f
		go c.receive(f)
	}
	for key, f := range c.long {
		if !wanted[key] {
			delete(c.long, key)
			c.closing = append(c.closing, f)
		}
	}
}

func flowOf(target probe.Target, proto probe.Protocol) probe.Flow {
	return probe.Flow{
		To: target.Name, Service: target.Service, Address: target.Address, Proto: proto,
		Expect: target.Expect,
	}
}

// sendLongLived sends one probe on each long-lived flow.
func (c *client) sendLongLived(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.long {
		p := probe.Payload{Expect: f.flow.Expect, From: c.name, To: f.flow.To, Sequence: f.next}
		f.pending = append(f.pending, sent{at: now, sequence: f.next, flow: f.flow, backend: f.backend})
		f.next++
		c.count(f.flow).Sent++
		_, _ = f.conn.Write([]byte(p.String())) // an error is that of an earlier packet; the probe is lost
	}
}

// receive counts the answers on a flow until its socket is closed.
func (c *client) receive(f *longLivedFlow) {
	buffer := make([]byte, 1500)
	for {
		n, err := f.conn.Read(buffer)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		p, err := probe.ParsePayload(string(buffer[:n]))
		if err != nil || p.From != c.name {
			continue
		}
		c.mu.Lock()
		f.backend = p.Backend
		if len(f.pending) > 0 && p.Sequence >= f.pending[0].sequence {
			if i := p.Sequence - f.pending[0].sequence; i < uint64(len(f.pending)) && !f.pending[i].answered {
				f.pending[i].answered = true
				c.answered(f.pending[i].flow, f.pending[i].at, 0)
			}
		}
		c.mu.Unlock()
	}
}

// sweep records the probes that were not answered in time.
func (c *client) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.long {
		c.sweepFlow(f, now)
	}
	kept := c.closing[:0]
	for _, f := range c.closing {
		c.sweepFlow(f, now)
		if len(f.pending) == 0 {
			_ = f.conn.Close()
			continue
		}
		kept = append(kept, f)
	}
	c.closing = kept
}

func (c *client) sweepFlow(f *longLivedFlow, now time.Time) {
	i := 0
	for ; i < len(f.pending) && (f.pending[i].answered || now.Sub(f.pending[i].at) > probe.AnswerLimit); i++ {
		if s := f.pending[i]; !s.answered {
			c.lost(s.flow, s.at, s.backend)
		}
	}
	f.pending = append(f.pending[:0], f.pending[i:]...)
}

// probeUDP sends one datagram from a new port.
func (c *client) probeUDP(target probe.Target, sequence uint64) {
	flow := flowOf(target, probe.UDPNew)
	at := time.Now()
	c.probe(flow, at, sequence, func() (net.Conn, error) {
		return net.Dial("udp", net.JoinHostPort(target.Address, strconv.Itoa(probe.UDPPort)))
	})
}

// probeTCP makes one connection.
func (c *client) probeTCP(target probe.Target, sequence uint64) {
	flow := flowOf(target, probe.TCP)
	at := time.Now()
	first := probe.FirstPort
	if target.Expect == probe.Deny {
		first = probe.FirstDeniedPort
	}
	c.mu.Lock()
	c.port = (c.port + 1) % probe.Ports
	dialer := net.Dialer{Deadline: at.Add(limitOf(flow)), LocalAddr: &net.TCPAddr{Port: first + c.port}}
	c.mu.Unlock()
	c.probe(flow, at, sequence, func() (net.Conn, error) {
		return dialer.Dial("tcp", net.JoinHostPort(target.Address, strconv.Itoa(probe.TCPPort)))
	})
}

func limitOf(flow probe.Flow) time.Duration {
	if flow.Expect == probe.Allow {
		return probe.AnswerLimit
	}
	return deniedLimit
}

// probe sends one probe on a new connection and waits for the answer.
func (c *client) probe(flow probe.Flow, at time.Time, sequence uint64, dial func() (net.Conn, error)) {
	c.mu.Lock()
	c.count(flow).Sent++
	c.mu.Unlock()
	conn, err := dial()
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(at.Add(limitOf(flow)))
		p := probe.Payload{Expect: flow.Expect, From: c.name, To: flow.To, Sequence: sequence}
		_, err = conn.Write([]byte(p.String()))
	}
	buffer := make([]byte, 1500)
	var n int
	if err == nil {
		n, err = conn.Read(buffer)
	}
	if err == nil {
		_, err = probe.ParsePayload(string(buffer[:n]))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lost(flow, at, "")
		return
	}
	c.answered(flow, at, resent(conn))
}

// resent returns how many segments of a TCP connection were sent again.
func resent(conn net.Conn) int {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	var total int
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			total = int(info.Total_retrans)
		}
	})
	return total
}

// count returns the counters of a flow. The caller holds mu, as for answered and lost.
func (c *client) count(flow probe.Flow) *probe.Count {
	count := c.counts[flow]
	if count == nil {
		count = &probe.Count{Flow: flow}
		c.counts[flow] = count
	}
	return count
}

func (c *client) answered(flow probe.Flow, at time.Time, resent int) {
	count := c.count(flow)
	count.Answered++
	count.Resent += resent
	count.Slowest = max(count.Slowest, int(time.Since(at).Milliseconds()))
}

// lost records an allowed probe. Losses of one flow within a second are one record.
func (c *client) lost(flow probe.Flow, at time.Time, backend string) {
	if flow.Expect != probe.Allow {
		return
	}
	when := at.UnixMilli()
	for i := range c.losses {
		l := &c.losses[i]
		if l.Flow == flow && l.Backend == backend && when-l.First < 1000 && when >= l.First {
			l.Last = max(l.Last, when)
			l.Count++
			return
		}
	}
	c.losses = append(c.losses, probe.Loss{Flow: flow, First: when, Last: when, Count: 1, Backend: backend})
}

// report prints the counters since the last report.
func (c *client) report() {
	c.mu.Lock()
	var counts []probe.Count
	for _, count := range c.counts {
		counts = append(counts, *count)
	}
	losses := c.losses
	clear(c.counts)
	c.losses = nil
	c.mu.Unlock()
	for len(counts) > 0 || len(losses) > 0 {
		line := probe.Line{
			Counts: counts[:min(len(counts), countsPerLine)],
			Losses: losses[:min(len(losses), countsPerLine)],
		}
		counts, losses = counts[len(line.Counts):], losses[len(line.Losses):]
		c.out.print(line)
	}
}

func isClosed(err error) bool {
	var number syscall.Errno
	opError, ok := err.(*net.OpError)
	if !ok {
		return true
	}
	if system, ok := opError.Err.(*os.SyscallError); ok {
		number, _ = system.Err.(syscall.Errno)
	}
	return number != unix.ECONNREFUSED && number != unix.EHOSTUNREACH && number != unix.ENETUNREACH &&
		number != unix.EACCES && number != unix.EPERM
}
