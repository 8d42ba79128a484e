// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
)

const (
	maxPacket = 1 << 16
	maxText   = 1024 // of a message of the client, as in the real agnhost
)

// handler returns the answer to a client's message, or "" to end the association.
type handler func(client netip.AddrPort, text string) string

// server answers the associations of some ports, on both families. It keeps no state of an
// association: INIT-ACK passes the state to the client, whose COOKIE-ECHO and data come in one
// packet.
type server struct {
	handlers map[uint16]handler
	claims   []*net.UnixConn
	conns    []*net.IPConn
}

// newServer claims the ports and opens the sockets. It returns syscall.EADDRINUSE if another server
// of this network namespace has one of the ports.
func newServer(handlers map[uint16]handler) (*server, error) {
	s := &server{handlers: handlers}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) open() error {
	for port := range s.handlers {
		claim, err := net.ListenUnixgram("unixgram", claimName(port))
		if err != nil {
			return fmt.Errorf("claim port %d: %w", port, err)
		}
		s.claims = append(s.claims, claim)
	}
	for _, wildcard := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		conn, err := net.ListenIP(networkOf(wildcard), &net.IPAddr{IP: wildcard.AsSlice()})
		if wildcard.Is6() && (errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)) {
			continue // the namespace has no IPv6
		}
		if err != nil {
			return fmt.Errorf("raw socket: %w", err)
		}
		s.conns = append(s.conns, conn)
		if err := requestDestination(conn, wildcard.Is6()); err != nil {
			return fmt.Errorf("raw socket: %w", err)
		}
	}
	return nil
}

func (s *server) close() {
	for _, claim := range s.claims {
		_ = claim.Close()
	}
	for _, conn := range s.conns {
		_ = conn.Close()
	}
}

// serve answers packets until a socket fails or is closed, and returns its error.
func (s *server) serve() error {
	failed := make(chan error, len(s.conns))
	for _, conn := range s.conns {
		go func() { failed <- s.serveConn(conn) }()
	}
	return <-failed
}

func (s *server) serveConn(conn *net.IPConn) error {
	buffer, control := make([]byte, maxPacket), make([]byte, 256)
	for {
		n, controlled, _, peer, err := conn.ReadMsgIP(buffer, control)
		switch {
		case isICMP(err), errors.Is(err, syscall.ENOPROTOOPT), errors.Is(err, syscall.EPROTO):
			continue
		case err != nil:
			return fmt.Errorf("raw socket: %w", err)
		}
		payload, local, ok := received(buffer[:n], control[:controlled])
		if !ok {
			continue
		}
		request, err := decode(payload)
		if err != nil {
			continue
		}
		from, _ := netip.AddrFromSlice(peer.IP)
		from = from.Unmap().WithZone(peer.Zone)
		answer, ok := s.answer(netip.AddrPortFrom(from, request.source), request)
		if !ok {
			continue
		}
		// A lost answer is the client's affair: it sends its packet again.
		if _, _, err := conn.WriteMsgIP(answer.encode(), sendFrom(local), peer); err != nil {
			log.Printf("SCTP: failed to answer %s: %v", from, err)
		}
	}
}

// answer returns the packet that answers a client's, if one does.
func (s *server) answer(client netip.AddrPort, request packet) (packet, bool) {
	answer := packet{source: request.destination, destination: request.source}
	handle, served := s.handlers[request.destination]
	if value, ok := request.find(chunkInit); ok {
		init, _, err := parseInitiation(value)
		if err != nil || request.tag != 0 || len(request.chunks) != 1 {
			return packet{}, false
		}
		answer.tag = init.tag
		if served {
			cookie := stateCookie{client: init, server: initiation{tag: randomTag(), tsn: rand.Uint32()}}
			answer.chunks = []chunk{cookie.server.chunk(chunkInitAck, cookie.encode())}
			return answer, true
		}
		answer.chunks = []chunk{{kind: chunkAbort}}
		return answer, !claimed(request.destination)
	}
	if value, ok := request.find(chunkCookieEcho); ok && served {
		cookie, err := parseStateCookie(value)
		if err != nil || request.tag != cookie.server.tag {
			return packet{}, false
		}
		answer.tag = cookie.client.tag
		answer.chunks = append([]chunk{{kind: chunkCookieAck}}, replyTo(client, request, cookie, handle)...)
		return answer, true
	}
	return packet{}, false
}

// replyTo returns the chunks that answer the data of a packet, or nil if it has none.
func replyTo(client netip.AddrPort, request packet, cookie stateCookie, handle handler) []chunk {
	value, ok := request.find(chunkData)
	if !ok {
		return nil
	}
	tsn, text, err := parseData(value)
	if err != nil {
		return nil
	}
	reply := handle(client, text[:min(len(text), maxText)])
	if reply == "" {
		return []chunk{sackChunk(tsn), {kind: chunkAbort}}
	}
	return []chunk{sackChunk(tsn), dataChunk(cookie.server.tsn, reply)}
}

// claimName returns the name of the abstract Unix socket that claims a port in this network
// namespace.
func claimName(port uint16) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: fmt.Sprintf("@wayleave-sctp/%d", port)}
}

// claimed reports whether a server of this network namespace has a port.
func claimed(port uint16) bool {
	conn, err := net.DialUnix("unixgram", nil, claimName(port))
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return true
}
