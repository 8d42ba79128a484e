// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// floodNet is a router with two workloads, way1 and way2. One end of a flood sends first packets of
// UDP flows, and counters at the other end count the packets that arrive, by destination port.
type floodNet struct {
	*network
	// send sends floodFlows packets of each kind.
	send func() error
	// counters is the namespace of the counters, family that of their table.
	counters *netns.NS
	family   string
}

// The flows of a flood: forbidden ones, which nothing may let through, and allowed ones, which
// nothing may lose. Half of the packets are of each kind.
const (
	floodForbidden = 81
	floodAllowed   = 80
	floodFlows     = 32
)

// newFloodNet makes the router and the flood of one family from way1 to way2: 0 for IPv4, 1 for IPv6.
func newFloodNet(t *testing.T, family int) *floodNet {
	t.Helper()
	n := newFloodRouter(t)
	way2 := n.workloads[1]
	n.count(t, way2.NS, "netdev", fmt.Sprintf("ingress device %q", way2.Link.Name))
	b := n.frames(t, 0, floodFrames(floodSource(family), floodTarget(family)))
	n.send = func() error { return b.send(len(b.list)) }
	return n
}

// newFloodRouter makes the router with its workloads.
func newFloodRouter(t *testing.T) *floodNet {
	t.Helper()
	n := &floodNet{network: &network{node: nstest.New(t)}}
	router(t, n.node)
	for i := range 2 {
		own := workloadAddrs(i)
		w := nstest.NewWorkload(t, n.node, fmt.Sprintf("way%d", i+1), own[0].String(), own[1].String())
		n.workloads = append(n.workloads, w)
		for _, a := range own {
			n.route(t, a, i)
		}
	}
	return n
}

// floodFrames are the packets of a flood between workloads, or from one to the node.
func floodFrames(src, dst netip.Addr) (frames []frame) {
	for i := range floodFlows {
		for _, port := range []uint16{floodForbidden, floodAllowed} {
			frames = append(frames, frame{
				src: src, dst: dst, sport: uint16(2000 + i), dport: port, proto: policy.ProtocolUDP,
			})
		}
	}
	return frames
}

// count creates the counters, in a table of the family, at the hook.
func (n *floodNet) count(t *testing.T, at *netns.NS, family, hook string) {
	t.Helper()
	n.counters, n.family = at, family
	load(t, at, fmt.Sprintf(`table %s arrived {
		counter forbidden {}
		counter allowed {}
		chain in {
			type filter hook %s priority 100
			udp dport %d counter name forbidden drop
			udp dport %d counter name allowed drop
		}
	}`, family, hook, floodForbidden, floodAllowed))
}

// drained waits until the kernel has no packets left in the queues between interfaces. On a busy
// machine they can be there for long after they were sent. Nothing notifies of that, so it polls.
func drained(t *testing.T) {
	t.Helper()
	queued := func() (packets int) {
		text, err := os.ReadFile("/proc/net/softnet_stat")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line) // one line for each processor
			require.Greater(t, len(fields), 11, line)
			n, err := strconv.ParseUint(fields[11], 16, 32)
			require.NoError(t, err)
			packets += int(n)
		}
		return packets
	}
	require.Eventually(t, func() bool { return queued() == 0 }, time.Minute, time.Millisecond)
}

// arrived returns how many packets of each kind have ever arrived.
func (n *floodNet) arrived(t *testing.T) (forbidden, allowed int) {
	t.Helper()
	drained(t)
	read := func(name string) int {
		out := nstest.NFT(t, n.counters, "", "list", "counter", n.family, "arrived", name)
		found := regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(out)
		require.Len(t, found, 2, out)
		count, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return count
	}
	return read("forbidden"), read("allowed")
}

// frames are packets that a workload's interface sends to the node.
func (n *floodNet) frames(t *testing.T, from int, packets []frame) *burst {
	t.Helper()
	w := n.workloads[from]
	var fd int
	require.NoError(t, w.NS.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: w.Link.Index}))
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
	typ := []byte{0x08, 0x00}
	if packets[0].dst.Is6() {
		typ = []byte{0x86, 0xdd}
	}
	b := &burst{fd: fd}
	b.fill(packets, slices.Concat(w.Host.MAC, w.Link.MAC, typ))
	return b
}

// during sends the flood while run runs. It returns how many packets were sent of each kind.
func (n *floodNet) during(t *testing.T, run func()) (sent int) {
	t.Helper()
	return floodDuring(t, n.send, run) * floodFlows
}

// floodDuring calls send again and again, all from one processor, while run runs. It returns how often.
func floodDuring(t *testing.T, send func() error, run func()) (bursts int) {
	t.Helper()
	var stop atomic.Bool
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var one unix.CPUSet
		one.Set(runtime.NumCPU() - 1)
		err := unix.SchedSetaffinity(0, &one)
		for err == nil && !stop.Load() {
			err = send()
			bursts++
		}
		failed <- err
	}()
	func() {
		defer stop.Store(true)
		run()
	}()
	require.NoError(t, <-failed)
	return bursts
}

// floodSource is the address that the flood of a family comes from, floodTarget the one that it
// goes to.
func floodSource(family int) netip.Addr { return workloadAddrs(0)[family] }
func floodTarget(family int) netip.Addr { return workloadAddrs(1)[family] }
