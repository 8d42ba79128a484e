// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/wayleave/wayleave/internal/netns"
)

const (
	// port is the port on which the second pod answers.
	port = 7777
	// retry is the time after which a request without an answer is sent again.
	retry = 200 * time.Millisecond

	// request and answer are the payloads. Mode.check searches for them in captured packets.
	request = "is anybody there?"
	answer  = "yes, all is well here"
)

// sendRequest sends a request from one namespace to another, repeatedly, until it is answered or
// answerTimeout has passed.
func sendRequest(
	ctx context.Context, fromNS *netns.NS, from netip.Addr, toNS *netns.NS, to netip.Addr,
) (ok bool, err error) {
	var server, client *net.UDPConn
	err = toNS.Do(func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, port)))
		return err
	})
	if err != nil {
		return false, err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer func() { err = errors.Join(err, server.Close()) }()
	running.Go(func() { serve(server) })
	err = fromNS.Do(func() (err error) {
		client, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, port)))
		return err
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	answered := make(chan struct{})
	running.Go(func() {
		if receiveAnswer(client) {
			close(answered)
		}
	})
	return sendUntilAnswered(ctx, client, answered)
}

// serve answers requests until the connection is closed.
func serve(conn *net.UDPConn) {
	buf := make([]byte, 512)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && string(buf[:n]) == request {
			_, _ = conn.WriteToUDPAddrPort([]byte(answer), from) // the client retries
		}
	}
}

// receiveAnswer reports whether the answer arrives before the connection is closed.
func receiveAnswer(conn *net.UDPConn) bool {
	buf := make([]byte, 512)
	for {
		n, err := conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return false
		}
		if err == nil && string(buf[:n]) == answer {
			return true
		}
	}
}

// sendUntilAnswered sends the request repeatedly until answered is closed. It reports whether that
// happened within answerTimeout.
func sendUntilAnswered(ctx context.Context, conn *net.UDPConn, answered <-chan struct{}) (ok bool, err error) {
	end := time.NewTimer(answerTimeout)
	defer end.Stop()
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		_, _ = conn.Write([]byte(request)) // an error is about an earlier request, or occurs again
		select {
		case <-answered:
			return true, nil
		case <-again.C:
		case <-end.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
