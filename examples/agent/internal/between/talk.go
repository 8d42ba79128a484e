// SPDX-License-Identifier: Apache-2.0

package between

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
	// port is where the second pod answers.
	port = 7777
	// retry is the time after which a request without an answer is sent again.
	retry = 200 * time.Millisecond

	// request and answer are looked for in captured packets.
	request = "is anybody there?"
	answer  = "yes, all is well here"
)

// talk sends a request from one namespace to another until it is answered, or patience ends.
func talk(
	ctx context.Context, fromNS *netns.NS, from netip.Addr, toNS *netns.NS, to netip.Addr,
) (answered bool, err error) {
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
	heard := make(chan struct{})
	running.Go(func() {
		if listen(client) {
			close(heard)
		}
	})
	return ask(ctx, client, heard)
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
			_, _ = conn.WriteToUDPAddrPort([]byte(answer), from) // the client asks again
		}
	}
}

// listen reports whether the answer arrives before the connection is closed.
func listen(conn *net.UDPConn) bool {
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

// ask sends the request again and again until an answer was heard.
func ask(ctx context.Context, conn *net.UDPConn, heard <-chan struct{}) (answered bool, err error) {
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		_, _ = conn.Write([]byte(request)) // an error is of an earlier request, or the next one has it too
		select {
		case <-heard:
			return true, nil
		case <-again.C:
		case <-end.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
