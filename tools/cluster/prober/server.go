// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// leakCounter counts denied probes that arrive. It is safe for concurrent use.
type leakCounter struct {
	mu    sync.Mutex
	leaks []probe.Leak
}

func (l *leakCounter) add(from string, proto probe.Protocol) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.leaks {
		if l.leaks[i].From == from && l.leaks[i].Proto == proto {
			l.leaks[i].Count++
			return
		}
	}
	l.leaks = append(l.leaks, probe.Leak{From: from, Proto: proto, First: time.Now().UnixMilli(), Count: 1})
}

// drain returns the leaks since the last call.
func (l *leakCounter) drain() []probe.Leak {
	l.mu.Lock()
	defer l.mu.Unlock()
	leaks := l.leaks
	l.leaks = nil
	return leaks
}

// serve answers probes in both families until the program ends.
func serve(name string, leaks *leakCounter) error {
	for _, family := range []string{"4", "6"} {
		conn, err := net.ListenUDP("udp"+family, &net.UDPAddr{Port: probe.UDPPort})
		if err != nil {
			return err
		}
		if err := enlargeBuffer(conn); err != nil {
			return err
		}
		go serveUDP(conn, name, leaks)
		listener, err := net.ListenTCP("tcp"+family, &net.TCPAddr{Port: probe.TCPPort})
		if err != nil {
			return err
		}
		go serveTCP(listener, name, leaks)
	}
	return nil
}

// enlargeBuffer sets a receive buffer that holds the packets that arrive while a busy host does not
// schedule this process.
func enlargeBuffer(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) {
		result = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	})
	if err := errors.Join(err, result); err != nil {
		return fmt.Errorf("set the buffer of a socket, which needs CAP_NET_ADMIN: %w", err)
	}
	return nil
}

func serveUDP(conn *net.UDPConn, name string, leaks *leakCounter) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			continue // of an earlier answer
		}
		p, err := probe.ParsePayload(string(buffer[:n]))
		if err != nil || p.Backend != "" {
			continue
		}
		if p.Expect == probe.Deny {
			leaks.add(p.From, probe.UDP)
		}
		p.Backend = name
		_, _ = conn.WriteToUDPAddrPort([]byte(p.String()), from)
	}
}

func serveTCP(listener *net.TCPListener, name string, leaks *leakCounter) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many open files
			continue
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(probe.AnswerLimit))
			buffer := make([]byte, 1500)
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			p, err := probe.ParsePayload(string(buffer[:n]))
			if err != nil {
				return
			}
			if p.Expect == probe.Deny {
				leaks.add(p.From, probe.TCP)
			}
			p.Backend = name
			_, _ = conn.Write([]byte(p.String()))
		}()
	}
}

// countDeniedTCP counts TCP segments from the source ports of denied probes, even if no connection
// is established.
func countDeniedTCP(leaks *leakCounter) error {
	for _, family := range []struct {
		protocol                     uint16
		next, ports, source, address uint32 // offsets
	}{
		{unix.ETH_P_IP, 9, 20, 12, 4},
		{unix.ETH_P_IPV6, 6, 40, 8, 16},
	} {
		protocol := int(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, family.protocol)))
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("packet socket: %w", err)
		}
		// The probes have neither options nor extension headers: the ports are at a fixed offset.
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: family.next},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_TCP, Jf: 6},
			{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: family.ports + 2},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: probe.TCPPort, Jf: 4},
			{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: family.ports},
			{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: probe.FirstDeniedPort, Jf: 2},
			{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: probe.FirstDeniedPort + probe.Ports - 1, Jt: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: 128},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
			return fmt.Errorf("filter of a packet socket: %w", err)
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(protocol)}); err != nil {
			return fmt.Errorf("bind a packet socket: %w", err)
		}
		go func() {
			buffer := make([]byte, 128)
			for {
				n, _, err := unix.Recvfrom(fd, buffer, 0)
				if errors.Is(err, unix.EINTR) {
					continue
				}
				if err != nil {
					return
				}
				if n < int(family.ports+2) {
					continue
				}
				source, _ := netip.AddrFromSlice(buffer[family.source : family.source+family.address])
				port := binary.BigEndian.Uint16(buffer[family.ports:])
				leaks.add(netip.AddrPortFrom(source, port).String(), probe.TCP)
			}
		}()
	}
	return nil
}
