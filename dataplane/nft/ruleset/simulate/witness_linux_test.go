// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	mdnetlink "github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// witness is a node whose kernel reports the rules that each packet traverses, with the trace of
// nftables. It has three links to a peer, which sends the packets. No packet leaves the node,
// because a table of the test drops accepted packets behind all other chains. So no packet is
// answered, and no connection confirmed. As the test only needs packet sockets on a veth, an
// ordinary user can run it.
//
//	peer: tap0 tap1 tap2 ══ veth ══ wan0 wan1 lan0 :node   10.9.0.1, fd09::1 local
type witness struct {
	node  *netns.NS
	links map[string]link // by the name of the node's end
	// inject sends from the peer, local from the node itself; sentinel receives in the node.
	inject, local4, local6, sentinel, traces int
	control                                  *mdnetlink.Conn
	handles                                  map[string]map[uint64]int // chain -> handle -> rule
	serial                                   uint64
	buf                                      []byte
}

// link is a veth of the node.
type link struct {
	peer int // index of the peer's end
	host int // index of the node's end
	mac  [8]byte
}

// sentinelType is an EtherType without a protocol: only packet sockets receive such frames.
const sentinelType = 0x88b5

// The node's own addresses.
var (
	local4 = netip.MustParseAddr("10.9.0.1")
	local6 = netip.MustParseAddr("fd09::1")
)

func witnessLinks() []string { return []string{"wan0", "wan1", "lan0"} }

// tracer turns the trace on for the packets of the test, and drops them at the end of their path.
// Packets of the node itself (neighbour discovery, answers of reject) have another TTL, or arrive
// at no link of the test.
const tracer = `table inet tracer {
	chain in {
		type filter hook prerouting priority -1000; policy accept;
		iifname { wan0, wan1, lan0 } meta nftrace set 1
	}
	chain out {
		type filter hook output priority -1000; policy accept;
		ip ttl 99 meta nftrace set 1
		ip6 hoplimit 99 meta nftrace set 1
	}
	chain in-end {
		type filter hook input priority 1000; policy drop;
	}
	chain out-end {
		type filter hook postrouting priority 1000; policy drop;
	}
}
`

// testTTL is the TTL of the test's packets.
const testTTL = 99

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{node: nstest.New(t), links: map[string]link{}, buf: make([]byte, 1<<16)}
	peer := nstest.New(t)
	// Neither end resolves neighbours or sends other packets.
	require.NoError(t, peer.SetSysctl("net/ipv6/conf/default/disable_ipv6", "1"))
	for name, value := range map[string]string{
		"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "ipv6/conf/default/addr_gen_mode": "1",
		"netfilter/nf_conntrack_checksum": "0", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
	} {
		require.NoError(t, w.node.SetSysctl("net/"+name, value))
	}
	for i, name := range witnessLinks() {
		a, b, err := netns.Veth(netns.End{NS: w.node, Name: name}, netns.End{NS: peer, Name: fmt.Sprintf("tap%d", i)})
		require.NoError(t, err)
		l := link{peer: b.Index, host: a.Index}
		copy(l.mac[:], a.MAC)
		w.links[name] = l
	}
	for _, a := range []netip.Addr{local4, local6} {
		require.NoError(t, w.node.AddAddr("lo", netip.PrefixFrom(a, a.BitLen())))
	}
	w.routes(t)
	w.sockets(t, peer)
	nstest.NFT(t, w.node, tracer, "-f", "-")
	return w
}

// routes adds a default route through wan0, and a route for one network through wan1.
func (w *witness) routes(t *testing.T) {
	t.Helper()
	require.NoError(t, w.node.Do(func() error {
		for prefix, name := range map[string]string{
			"0.0.0.0/0": "wan0", "10.1.0.0/16": "wan1", "::/0": "wan0", "fd01::/16": "wan1",
		} {
			dst, err := netlink.ParseIPNet(prefix)
			if err != nil {
				return err
			}
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: w.links[name].host, Dst: dst}); err != nil {
				return fmt.Errorf("%s: %w", prefix, err)
			}
		}
		return nil
	}))
}

// sockets opens the sockets that send and receive.
func (w *witness) sockets(t *testing.T, peer *netns.NS) {
	t.Helper()
	open := func(domain, typ, protocol int) (fd int) {
		fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, protocol)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		return fd
	}
	require.NoError(t, peer.Do(func() error {
		w.inject = open(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
		return nil
	}))
	require.NoError(t, w.node.Do(func() error {
		w.sentinel = open(unix.AF_PACKET, unix.SOCK_DGRAM, int(netOrder(sentinelType)))
		w.local4 = open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		w.local6 = open(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW)
		w.traces = open(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
		if err := unix.Bind(w.traces, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(w.traces, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20); err != nil {
			return err
		}
		return unix.SetsockoptInt(w.traces, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTRACE)
	}))
	var err error
	w.control, err = mdnetlink.Dial(unix.NETLINK_NETFILTER, &mdnetlink.Config{NetNS: w.node.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.control.Close()) })
}

// pinned runs fn on one processor, on which the kernel then handles the packets one after the
// other.
func pinned(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // The thread ends with the goroutine.
		var set unix.CPUSet
		if unix.SchedGetaffinity(0, &set) == nil {
			for cpu, found := 0, false; cpu < 1024; cpu++ {
				if set.IsSet(cpu) && found {
					set.Clear(cpu)
				}
				found = found || set.IsSet(cpu)
			}
			_ = unix.SchedSetaffinity(0, &set)
		}
		fn()
	}()
	<-done
}

// samplePacket is a packet to send. The peer sends it over the link via. If via is empty, the node
// itself sends it with a mark and a priority.
type samplePacket struct {
	via            string
	mark, priority uint32
	bytes          []byte
}

// witnessStep is one message of the kernel's trace. Rule is -1 for the policy.
type witnessStep struct {
	chain   string
	rule    int
	verdict string
	mark    uint32
}

// send sends the packet and returns the kernel's trace of it in the table.
func (w *witness) send(p samplePacket, table string) ([]witnessStep, error) {
	if err := w.put(p); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if err := w.waitProcessed(); err != nil {
		return nil, err
	}
	return w.drain(table)
}

func (w *witness) put(p samplePacket) error {
	six := p.bytes[0]>>4 == 6
	if p.via != "" {
		protocol := uint16(unix.ETH_P_IP)
		if six {
			protocol = unix.ETH_P_IPV6
		}
		return w.frame(p.via, protocol, p.bytes)
	}
	fd, to := w.local4, unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte(p.bytes[16:20])})
	if six {
		fd, to = w.local6, &unix.SockaddrInet6{Addr: [16]byte(p.bytes[24:40])}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(p.mark)); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, int(p.priority)); err != nil {
		return err
	}
	if err := unix.Sendto(fd, p.bytes, 0, to); err != nil && !errors.Is(err, unix.EPERM) { // EPERM: dropped
		return err
	}
	return nil
}

func (w *witness) frame(via string, protocol uint16, payload []byte) error {
	l := w.links[via]
	return unix.Sendto(w.inject, payload, 0, &unix.SockaddrLinklayer{
		Protocol: netOrder(protocol), Ifindex: l.peer, Halen: 6, Addr: l.mac,
	})
}

// waitProcessed waits until the kernel has processed all sent packets: a sentinel, which cannot
// overtake them, arrives.
func (w *witness) waitProcessed() error {
	w.serial++
	if err := w.frame("wan0", sentinelType, binary.BigEndian.AppendUint64(make([]byte, 0, 64), w.serial)); err != nil {
		return fmt.Errorf("sentinel: %w", err)
	}
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(w.sentinel), Events: unix.POLLIN}}, 20_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || ready == 0 {
			return fmt.Errorf("sentinel lost: %w", err)
		}
		n, _, err := unix.Recvfrom(w.sentinel, w.buf, 0)
		if err != nil {
			return err
		}
		if n >= 8 && binary.BigEndian.Uint64(w.buf) == w.serial {
			return nil
		}
	}
}

// drain reads the buffered trace messages.
func (w *witness) drain(table string) ([]witnessStep, error) {
	var steps []witnessStep
	for {
		n, _, err := unix.Recvfrom(w.traces, w.buf, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return steps, nil
		}
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		for b := w.buf[:n]; len(b) >= unix.NLMSG_HDRLEN+4; {
			size := int(binary.NativeEndian.Uint32(b))
			step, ok, err := w.parseTrace(b[unix.NLMSG_HDRLEN+4:size], table)
			if err != nil {
				return nil, err
			}
			if ok {
				steps = append(steps, step)
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

// The attributes of a trace message, and its types (enum nft_trace_attributes, nft_trace_types).
const (
	traceTable, traceChain, traceHandle, traceType, traceVerdict, traceMark, tracePolicy = 1, 2, 3, 4, 5, 14, 16

	tracePolicyType, traceReturnType, traceRuleType = 1, 2, 3
)

// parseTrace reads one message. ok is false if it is of another table, or reports the end of a
// chain.
func (w *witness) parseTrace(b []byte, table string) (witnessStep, bool, error) {
	ad, err := mdnetlink.NewAttributeDecoder(b)
	if err != nil {
		return witnessStep{}, false, err
	}
	ad.ByteOrder = binary.BigEndian
	var typ, policy uint32
	var handle uint64
	var name string
	s := witnessStep{rule: -1}
	for ad.Next() {
		switch ad.Type() {
		case traceTable:
			name = ad.String()
		case traceChain:
			s.chain = ad.String()
		case traceHandle:
			handle = ad.Uint64()
		case traceType:
			typ = ad.Uint32()
		case traceMark:
			s.mark = ad.Uint32()
		case tracePolicy:
			policy = ad.Uint32()
		case traceVerdict:
			ad.Nested(func(v *mdnetlink.AttributeDecoder) error {
				var code int32
				var chain string
				for v.Next() {
					switch v.Type() {
					case unix.NFTA_VERDICT_CODE:
						code = int32(v.Uint32())
					case unix.NFTA_VERDICT_CHAIN:
						chain = v.String()
					}
				}
				s.verdict = verdictName(code, chain)
				return nil
			})
		}
	}
	if ad.Err() != nil || name != table {
		return s, false, ad.Err()
	}
	switch {
	case typ == tracePolicyType:
		s.verdict = verdictName(int32(policy), "")
		return s, true, nil
	case handle == 0: // the end of a chain
		return s, false, nil
	}
	rule, ok := w.handles[s.chain][handle]
	if !ok {
		return s, false, fmt.Errorf("trace of an unknown rule: chain %s handle %d", s.chain, handle)
	}
	s.rule = rule
	return s, true, nil
}

// verdictName returns a verdict as nft prints it; "" for none.
func verdictName(code int32, chain string) string {
	switch {
	case code == unix.NFT_CONTINUE:
		return ""
	case code == unix.NFT_RETURN:
		return "return"
	case code == unix.NFT_JUMP:
		return "jump " + chain
	case code == unix.NFT_GOTO:
		return "goto " + chain
	case code&0xff == 1:
		return "accept"
	case code&0xff == 0:
		return "drop"
	default:
		return fmt.Sprintf("%d %s", code, chain)
	}
}

// load replaces the ruleset (all tables except the tracer) and reads the handles of a table's
// rules.
func (w *witness) load(t *testing.T, family uint8, table, text string) {
	t.Helper()
	nstest.NFT(t, w.node, text, "-f", "-")
	w.handles = map[string]map[uint64]int{}
	ae := mdnetlink.NewAttributeEncoder()
	ae.String(unix.NFTA_RULE_TABLE, table)
	data, err := ae.Encode()
	require.NoError(t, err)
	msgs, err := w.control.Execute(mdnetlink.Message{
		Header: mdnetlink.Header{
			Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE, Flags: mdnetlink.Request | mdnetlink.Dump,
		},
		Data: append([]byte{family, 0, 0, 0}, data...),
	})
	require.NoError(t, err)
	for _, m := range msgs {
		ad, err := mdnetlink.NewAttributeDecoder(m.Data[4:])
		require.NoError(t, err)
		ad.ByteOrder = binary.BigEndian
		var chain string
		var handle uint64
		for ad.Next() {
			switch ad.Type() {
			case unix.NFTA_RULE_CHAIN:
				chain = ad.String()
			case unix.NFTA_RULE_HANDLE:
				handle = ad.Uint64()
			}
		}
		require.NoError(t, ad.Err())
		if w.handles[chain] == nil {
			w.handles[chain] = map[uint64]int{}
		}
		w.handles[chain][handle] = len(w.handles[chain])
	}
}

func netOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}
