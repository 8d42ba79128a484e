// SPDX-License-Identifier: Apache-2.0

package nflog

import (
	"context"
	"encoding/hex"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// load loads rules on a node.
func load(t *testing.T, node *netns.NS, rules string) {
	t.Helper()
	path, err := exec.LookPath("/usr/sbin/nft")
	if err != nil {
		path = "nft"
	}
	cmd := exec.Command(path, "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	var out []byte
	err = node.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	require.NoError(t, err, "%s", out)
}

func TestFollow(t *testing.T) {
	node := nstest.New(t)
	load(t, node, `table inet t { chain c { type filter hook output priority 0
		udp dport 53 log prefix "deny some-rule" group 7 drop
		udp dport 54 log prefix "elsewhere" group 8 drop
	}
	}`)
	ctx, cancel := context.WithCancel(t.Context())
	entries, ended := make(chan Entry, 100), make(chan error, 1)
	go func() {
		ended <- Follow(ctx, Config{Group: 7, NetNS: node.FD()}, func(e Entry) error {
			entries <- e
			return nil
		})
	}()
	send := func(address string) {
		_ = node.Do(func() error { // the send may fail, because the packet is dropped
			conn, err := net.Dial("udp", address)
			if err == nil {
				_, _ = conn.Write([]byte("x"))
				err = conn.Close()
			}
			return err
		})
	}
	got := func(address string) Entry { // Follow receives nothing until it has bound the group
		ticker, timeout := time.NewTicker(10*time.Millisecond), time.After(20*time.Second)
		defer ticker.Stop()
		for {
			send("127.0.0.1:54")
			send(address)
			select {
			case e := <-entries:
				return e
			case err := <-ended:
				t.Fatal(err)
			case <-timeout:
				t.Fatal("nothing is logged")
			case <-ticker.C:
			}
		}
	}
	e := got("127.0.0.1:53")
	require.Equal(t, "deny some-rule", e.Prefix)
	require.Equal(t, "127.0.0.1 127.0.0.1", e.Src.String()+" "+e.Dst.String())
	require.Equal(t, policy.ProtocolUDP, e.Protocol)
	require.Equal(t, uint16(53), e.DstPort)
	require.NotZero(t, e.SrcPort)
	require.Equal(t, uint32(1), e.Out)
	require.Zero(t, e.In)

	// A group has one follower.
	require.ErrorIs(t, Follow(ctx, Config{Group: 7, NetNS: node.FD()}, nil), syscall.EPERM)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestHeaders(t *testing.T) {
	const six = "6000000000080000" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002"
	for name, row := range map[string]struct {
		packet   string
		src, dst string
		protocol policy.Protocol
		port     uint16
	}{
		"nothing":      {packet: ""},
		"of no family": {packet: "00"},
		"cut short":    {packet: "4500"},
		"tcp": {"45000028000040004006" + "0000" + "0a000001" + "0a000002" +
			"9c400050", "10.0.0.1", "10.0.0.2", policy.ProtocolTCP, 80},
		"with options": {"46000028000040004006" + "0000" + "0a000001" + "0a000002" + "00000000" +
			"9c400050", "10.0.0.1", "10.0.0.2", policy.ProtocolTCP, 80},
		"later fragment": {"45000028000000104006" + "0000" + "0a000001" + "0a000002" +
			"9c400050", "10.0.0.1", "10.0.0.2", policy.ProtocolTCP, 0},
		"icmp": {"45000028000040004001" + "0000" + "0a000001" + "0a000002" +
			"08000050", "10.0.0.1", "10.0.0.2", policy.ProtocolICMP, 0},
		"no ports": {"45000028000040004006" + "0000" + "0a000001" + "0a000002" +
			"9c", "10.0.0.1", "10.0.0.2", policy.ProtocolTCP, 0},
		"six": {strings.Replace(six, "00080000", "00081100", 1) +
			"9c400035", "2001:db8::1", "2001:db8::2", policy.ProtocolUDP, 53},
		"six, extensions": {six + "3c00000000000000" + "1100000000000000" +
			"9c400035", "2001:db8::1", "2001:db8::2", policy.ProtocolUDP, 53},
		"six, fragment": {strings.Replace(six, "00080000", "00082c00", 1) + "1100000800000000" +
			"9c400035", "2001:db8::1", "2001:db8::2", policy.ProtocolUDP, 0},
		"six, cut short": {six + "3c00", "2001:db8::1", "2001:db8::2", 0, 0},
	} {
		data, err := hex.DecodeString(row.packet)
		require.NoError(t, err, name)
		var e Entry
		e.readPacket(data)
		src, dst := "", ""
		if e.Src.IsValid() {
			src, dst = e.Src.String(), e.Dst.String()
		}
		require.Equal(t, row.src+" "+row.dst, src+" "+dst, name)
		require.Equal(t, row.protocol, e.Protocol, name)
		require.Equal(t, row.port, e.DstPort, name)
	}
}
