// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
)

// traffic is the traffic between two pods that stay: an established connection, datagrams that
// policy allows, and attempts of connections that policy denies.
type traffic struct {
	t       *testing.T
	all     sync.WaitGroup
	closes  []io.Closer
	stop    chan struct{} // closed to stop the datagrams
	stopped chan struct{} // closed when no more datagrams are sent

	mu                              sync.Mutex
	echoed, sent, answered, refused int
	errs                            []error
}

// String returns the counts.
func (s *traffic) String() string {
	return fmt.Sprintf("%d round trips on a connection, %d of %d datagrams answered, %d connections refused", s.echoed,
		s.answered, s.sent, s.refused)
}

// startTraffic sends packets from one to two until ctx is done.
func startTraffic(ctx context.Context, t *testing.T, one, two *netns.NS) *traffic {
	t.Helper()
	s := &traffic{t: t, stop: make(chan struct{}), stopped: make(chan struct{})}
	var listener, forbidden net.Listener
	var packets net.PacketConn
	require.NoError(t, two.Do(func() (err error) {
		var errs [3]error
		listener, errs[0] = net.Listen("tcp", "10.0.0.2:80")
		forbidden, errs[1] = net.Listen("tcp", "10.0.0.2:81")
		packets, errs[2] = net.ListenPacket("udp", "10.0.0.2:53")
		return errors.Join(errs[:]...)
	}))
	var conn, datagrams net.Conn
	require.NoError(t, one.Do(func() (err error) {
		if conn, err = net.DialTimeout("tcp", "10.0.0.2:80", waitTimeout); err != nil {
			return err
		}
		datagrams, err = net.Dial("udp", "10.0.0.2:53")
		return err
	}))
	s.closes = []io.Closer{listener, forbidden, packets, conn, datagrams}
	context.AfterFunc(ctx, func() {
		for _, c := range s.closes {
			_ = c.Close()
		}
	})
	s.all.Go(func() { s.answer(listener, packets) })
	s.all.Go(func() { s.echo(ctx, conn) })
	s.all.Go(func() { s.datagrams(ctx, datagrams) })
	s.all.Go(func() { s.tryDenied(ctx, one) })
	s.all.Go(func() {
		if c, err := forbidden.Accept(); err == nil {
			s.fail(errors.New("a denied connection was accepted"))
			_ = c.Close()
		}
	})
	return s
}

func (s *traffic) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

func (s *traffic) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// answer echoes datagrams, and the data of one connection.
func (s *traffic) answer(listener net.Listener, packets net.PacketConn) {
	s.all.Go(func() {
		buf := make([]byte, 64)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buf[:n], from)
		}
	})
	conn, err := listener.Accept()
	if err == nil {
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	}
}

// echo sends a word on an established connection repeatedly, and reads it back.
func (s *traffic) echo(ctx context.Context, conn net.Conn) {
	word := make([]byte, 8)
	for ctx.Err() == nil {
		err := conn.SetDeadline(time.Now().Add(10 * time.Second))
		if err == nil {
			_, err = conn.Write(word)
		}
		if err == nil {
			_, err = io.ReadFull(conn, word)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.fail(fmt.Errorf("the established connection: %w", err))
			}
			return
		}
		s.count(&s.echoed)
		pause(ctx, time.Millisecond)
	}
}

// datagrams sends one datagram after the other until s.stop is closed, and counts the answers until
// ctx is done.
func (s *traffic) datagrams(ctx context.Context, conn net.Conn) {
	s.all.Go(func() {
		buf := make([]byte, 64)
		for {
			if _, err := conn.Read(buf); err != nil {
				if ctx.Err() != nil {
					return
				}
				continue // an ICMP error, for example port unreachable
			}
			s.count(&s.answered)
		}
	})
	defer close(s.stopped)
	buf := make([]byte, 8)
	for i := uint64(0); ctx.Err() == nil; i++ {
		select {
		case <-s.stop:
			return
		default:
		}
		binary.BigEndian.PutUint64(buf, i)
		if _, err := conn.Write(buf); err == nil {
			s.count(&s.sent)
		}
		pause(ctx, time.Millisecond)
	}
}

// drain stops the datagrams and waits for their answers. An answer that is then missing was lost.
func (s *traffic) drain(ctx context.Context) {
	close(s.stop)
	<-s.stopped
	for end := time.Now().Add(waitTimeout); s.missing() > 0 && time.Now().Before(end); {
		pause(ctx, time.Millisecond)
	}
}

// missing returns how many datagrams were not answered.
func (s *traffic) missing() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent - s.answered
}

// tryDenied tries to connect to a port that policy denies, repeatedly.
func (s *traffic) tryDenied(ctx context.Context, one *netns.NS) {
	for ctx.Err() == nil {
		_ = one.Do(func() error {
			conn, err := (&net.Dialer{Timeout: 20 * time.Millisecond}).DialContext(ctx, "tcp", "10.0.0.2:81")
			if err == nil {
				s.fail(errors.New("a denied connection was established"))
				return conn.Close()
			}
			s.count(&s.refused)
			return nil
		})
	}
}

// pause waits for a time, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// verify waits for the end of the traffic, and requires that policy was enforced.
func (s *traffic) verify() {
	s.t.Helper()
	s.all.Wait()
	require.NoError(s.t, errors.Join(s.errs...))
	require.NotZero(s.t, s.echoed)
	require.NotZero(s.t, s.refused)
	require.NotZero(s.t, s.answered)
	require.Zero(s.t, s.missing(), "allowed datagrams were lost: %s", s)
}
