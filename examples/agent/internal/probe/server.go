// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/policy"
)

// Server answers on the ports of a party. It is safe for concurrent use.
type Server struct {
	name    string
	sockets []io.Closer
	serving sync.WaitGroup

	mu       sync.Mutex
	received map[netip.AddrPort]bool
}

// Serve listens on each TCP and UDP port of the party, on each of its addresses, and answers with
// the party's name. (The kernel answers ICMP echo requests.)
func Serve(p node.Party) (*Server, error) {
	s := &Server{name: p.Name, received: map[netip.AddrPort]bool{}}
	err := p.NS.Do(func() error {
		for _, port := range p.Ports {
			for _, addr := range p.Addresses {
				if err := s.listen(port.Protocol, netip.AddrPortFrom(addr, port.Port)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("probe: serve %s: %w", p.Name, err), s.Close())
	}
	return s, nil
}

// Close ends the server, and waits until its goroutines and sockets are closed.
func (s *Server) Close() error {
	var errs []error
	for _, socket := range s.sockets {
		errs = append(errs, socket.Close())
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

// Received reports whether the server has received a TCP connection or a datagram from the address
// and port.
func (s *Server) Received(from netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[from]
}

func (s *Server) record(from netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received[netip.AddrPortFrom(from.Addr().Unmap(), from.Port())] = true
}

// listen opens one socket. It is called on a thread in the party's namespace.
func (s *Server) listen(protocol policy.Protocol, at netip.AddrPort) error {
	switch protocol {
	case policy.ProtocolTCP:
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, listener)
		s.serving.Go(func() { s.serveTCP(listener) })
	case policy.ProtocolUDP:
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, conn)
		s.serving.Go(func() { s.serveUDP(conn) })
	}
	return nil
}

// serveTCP sends the server's name to every client and closes the connection.
func (s *Server) serveTCP(listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			return // closed
		}
		if from, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
			s.record(from.AddrPort())
		}
		// An error means that the client has disconnected.
		_, _ = io.WriteString(conn, s.name)
		_ = conn.Close()
	}
}

// serveUDP answers every datagram with the server's name.
func (s *Server) serveUDP(conn *net.UDPConn) {
	buf := make([]byte, 64)
	for {
		_, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			s.record(from)
			_, _ = conn.WriteToUDPAddrPort([]byte(s.name), from)
		}
	}
}
