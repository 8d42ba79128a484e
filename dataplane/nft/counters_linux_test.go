// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"net/netip"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// Each rule has one counter. It has the sum of the packets of all addresses, and keeps its value
// when another policy changes, after a restart and after a repair. The log has the id of the rule.
func TestRuleCounters(t *testing.T) { nfttest.EachForm(t, testRuleCounters) }

func testRuleCounters(t *testing.T, classes render.ClassesConfig) {
	b := newBench(t)
	log := listenLog(t, b.node, 9, true)
	cfg := nft.Config{NetNS: b.node.FD(), Renderer: render.Config{
		Classes: classes, Counters: true, VerdictLog: render.VerdictLog{Enabled: true, Group: 9},
		Host: policy.HostConfig{KeepInvalid: true},
	}}
	d, err := nft.New(cfg)
	require.NoError(t, err)
	special := dataplane.Rule{ID: "special", Action: policy.Deny, Protocol: policy.ProtocolTCP, Source: set("s:a")}
	special.Destination.Ports = nfttest.PortList(policy.PortNumber(25))
	state := nfttest.RulesState(append([]dataplane.Rule{special}, nfttest.CountedRules()...)...)
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(state)))

	want := map[string]int{}
	inS, other := netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.9.9.9")
	source := uint16(2000)
	send := func(chain string, src netip.Addr, proto policy.Protocol, port uint16) {
		t.Helper()
		source++
		packet := rawPacket(src, netip.MustParseAddr("10.0.0.1"), uint8(proto), nfttest.Ports(source, port))
		word, id, _ := cutName(chain)
		require.Equal(t, word == "allow", b.passes(t, packet, b.outside, b.workload), "%s port %d", chain, port)
		require.Equal(t, word+" "+id, log.next(t))
		want[chain]++
	}
	traffic := func() {
		t.Helper()
		for range 2 {
			send("allow/web", inS, policy.ProtocolTCP, 80)
			send("allow/web", other, policy.ProtocolTCP, 443)
			send("allow/metrics", other, policy.ProtocolTCP, 9150)
		}
		send("deny/special", inS, policy.ProtocolTCP, 25)
		send("allow/tcp", other, policy.ProtocolTCP, 25)
		send("deny/never", inS, policy.ProtocolTCP, 23)
		send("deny/high", inS, policy.ProtocolTCP, 9201)
		send("allow/dns", other, policy.ProtocolUDP, 53)
		send("deny/any", inS, policy.ProtocolUDP, 54)
	}
	requireCounts := func(when string) {
		t.Helper()
		for chain, n := range want {
			require.Equal(t, n, packetsOf(t, b.node, chain), "%s: %s", when, chain)
		}
	}
	traffic()
	requireCounts("at first")

	next := stateWithFirst(state)
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(state, next)))
	requireCounts("another policy")
	traffic()
	send("deny/telnet", inS, policy.ProtocolTCP, 24)
	requireCounts("after another policy")

	require.NoError(t, d.Close())
	d, err = nft.New(cfg)
	require.NoError(t, err)
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(next)))
	require.NoError(t, d.Resync(t.Context()))
	traffic()
	requireCounts("restart")
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(next, state)))
	traffic()
	delete(want, "deny/telnet")
	requireCounts("without the other policy")
	require.NoError(t, d.Close())
}

// stateWithFirst returns a state of RulesState with another policy before the one with the rules.
func stateWithFirst(s dptest.State) dptest.State {
	first := nfttest.PolicyKey("first")
	s = s.Clone()
	e := *s.Endpoints[nfttest.EndpointKey("web1")]
	tier := e.Ingress[0]
	tier.Policies = append([]policy.Key{first}, tier.Policies...)
	e.Ingress = []dataplane.TierPolicies{tier}
	s.Endpoints[nfttest.EndpointKey("web1")] = &e
	telnet := dataplane.Rule{ID: "telnet", Action: policy.Deny, Protocol: policy.ProtocolTCP}
	telnet.Destination.Ports = nfttest.PortList(policy.PortNumber(24))
	s.Policies[first] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{telnet}}
	return s
}

// cutName returns the parts of the name of a rule's chain.
func cutName(chain string) (word, id string, ok bool) {
	m := regexp.MustCompile(`^(\w+)/(.*)$`).FindStringSubmatch(chain)
	return m[1], m[2], len(m) == 3
}

// packetsOf returns the counter of the only rule of a chain.
func packetsOf(t *testing.T, ns *netns.NS, chain string) int {
	t.Helper()
	text := nstest.NFT(t, ns, "", "list", "chain", "inet", "wayleave", chain)
	found := regexp.MustCompile(`counter packets (\d+) `).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1, text)
	n, err := strconv.Atoi(found[0][1])
	require.NoError(t, err)
	return n
}

// logSocket receives the messages of an nflog group.
type logSocket struct{ fd int }

// Of the kernel's linux/netfilter/nfnetlink_log.h.
const (
	nfulnlMsgConfig  = 1
	nfulaPrefix      = 10
	nfulaCfgCmd      = 1
	nfulaCfgMode     = 2
	nfulaCfgQThresh  = 5
	nfulnlCfgCmdBind = 1
	nfulnlCopyPacket = 2
)

// listenLog binds a socket to an nflog group of a namespace, for the first 128 bytes of each
// packet. Unless atOnce is set, the kernel sends up to 100 messages together.
func listenLog(tb testing.TB, ns *netns.NS, group uint16, atOnce bool) *logSocket {
	tb.Helper()
	s := &logSocket{}
	require.NoError(tb, ns.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	}))
	tb.Cleanup(func() { require.NoError(tb, unix.Close(s.fd)) })
	require.NoError(tb, unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	s.configure(tb, group, nfulaCfgCmd, []byte{nfulnlCfgCmdBind})
	s.configure(tb, group, nfulaCfgMode, []byte{0, 0, 0, 128, nfulnlCopyPacket, 0})
	if atOnce {
		s.configure(tb, group, nfulaCfgQThresh, []byte{0, 0, 0, 1})
	}
	return s
}

// configure sends one attribute of the configuration and awaits the kernel's answer.
func (s *logSocket) configure(tb testing.TB, group uint16, typ uint16, value []byte) {
	tb.Helper()
	order := binary.NativeEndian
	attr := order.AppendUint16(nil, uint16(4+len(value)))
	attr = append(order.AppendUint16(attr, typ), value...)
	attr = append(attr, make([]byte, (4-len(attr)%4)%4)...)
	msg := order.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+4+len(attr)))
	msg = order.AppendUint16(msg, unix.NFNL_SUBSYS_ULOG<<8|nfulnlMsgConfig)
	msg = order.AppendUint16(msg, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	msg = append(msg, make([]byte, 8)...) // sequence, port
	msg = append(msg, unix.AF_UNSPEC, 0)
	msg = append(binary.BigEndian.AppendUint16(msg, group), attr...)
	require.NoError(tb, unix.Sendto(s.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s.fd, buf, 0)
	require.NoError(tb, err)
	require.GreaterOrEqual(tb, n, unix.SizeofNlMsghdr+4)
	require.Zero(tb, int32(order.Uint32(buf[unix.SizeofNlMsghdr:])), "the kernel's error")
}

// next returns the prefix of the next message.
func (s *logSocket) next(t *testing.T) string {
	t.Helper()
	require.NoError(t, unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	buf := make([]byte, 1<<16)
	n, _, err := unix.Recvfrom(s.fd, buf, 0)
	require.NoError(t, err)
	for attrs := buf[unix.SizeofNlMsghdr+4 : n]; len(attrs) >= 4; {
		length := int(binary.NativeEndian.Uint16(attrs))
		if binary.NativeEndian.Uint16(attrs[2:]) == nfulaPrefix {
			return unix.ByteSliceToString(attrs[4:length])
		}
		attrs = attrs[min(len(attrs), (length+3)&^3):]
	}
	require.Fail(t, "a message without a prefix")
	return ""
}
