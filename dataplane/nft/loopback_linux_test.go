// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// S178: large datagrams of the host to itself pass. The kernel does not reassemble them before the
// input hook.
func TestLoopbackFragments(t *testing.T) { nfttest.EachForm(t, testLoopbackFragments) }

func testLoopbackFragments(t *testing.T, classes render.ClassesConfig) {
	for mtu, size := range map[string]int{"65536": 65507, "1500": 3000} {
		ns := nstest.New(t)
		runIP(t, ns, "link", "set", "lo", "mtu", mtu)
		runIP(t, ns, "addr", "add", "fdff::1/128", "dev", "lo", "nodad")
		d := open(t, ns, render.Config{Classes: classes, Host: policy.HostConfig{VXLANFromNodesOnly: true}})
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
		for _, addr := range []string{"::1", "127.0.0.1", "fdff::1"} {
			require.NoError(t, ns.Do(func() error { return datagram(net.JoinHostPort(addr, "5555"), size) }),
				"MTU %s, to %s", mtu, addr)
		}
	}
}

// datagram sends a datagram of some size to an own address and receives it.
func datagram(addr string, size int) error {
	receiver, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = receiver.Close() }()
	sender, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close() }()
	if _, err := sender.Write(make([]byte, size)); err != nil {
		return err
	}
	if err := receiver.SetReadDeadline(time.Now().Add(waitTimeout)); err != nil {
		return err
	}
	_, _, err = receiver.ReadFrom(make([]byte, size))
	return err
}
