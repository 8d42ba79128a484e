// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"io"
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

// The flows of a flood: forbidden ones, which must never pass, and allowed ones, which must never
// be lost. Half of the packets are of each kind.
const (
	floodForbidden = 81
	floodAllowed   = 80
	floodFlows     = 32
)

// newFloodNet makes the router and the flood of one family from way1 to way2: 0 for IPv4, 1 for
// IPv6.
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

// floodFrames returns the packets of a flood between workloads, or from one to the node.
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

// queues reads how many packets are in the kernel's queues between interfaces. It is an open file,
// because a flood reads it before each burst.
type queues struct {
	*os.File
	text []byte
}

func openQueues() (*queues, error) {
	f, err := os.Open("/proc/net/softnet_stat")
	return &queues{f, make([]byte, 1<<20)}, err
}

// length returns the number of queued packets.
func (q *queues) length() (packets int, err error) {
	n, err := q.ReadAt(q.text, 0)
	if err != io.EOF {
		return 0, fmt.Errorf("read %s: %w", q.Name(), err)
	}
	for line := range strings.Lines(string(q.text[:n])) { // one line for each processor
		fields := strings.Fields(line)
		if len(fields) < 12 {
			return 0, fmt.Errorf("%s lacks the lengths of queues: %q", q.Name(), line)
		}
		n, err := strconv.ParseUint(fields[11], 16, 32)
		if err != nil {
			return 0, err
		}
		packets += int(n)
	}
	return packets, nil
}

// await waits until at most limit packets are queued. On a busy machine, they can stay queued for a
// long time. The kernel sends no notification when they leave, so await polls.
func (q *queues) await(limit int) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Microsecond) {
		switch n, err := q.length(); {
		case err != nil || n <= limit:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("after a minute, %d packets are still queued", n)
		}
	}
}

// drained waits until no packet is queued.
func drained(t *testing.T) {
	t.Helper()
	q, err := openQueues()
	require.NoError(t, err)
	defer q.Close()
	require.NoError(t, q.await(0))
}

// arrived returns how many packets of each kind have arrived so far.
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

// frames returns packets that a workload's interface sends to the node.
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

// floodQueue is the number of queued packets at which a flood waits. The kernel drops packets when
// a processor has 1,000 (net.core.netdev_max_backlog), and a test must not count these drops as
// lost packets.
const floodQueue = 200

// floodDuring calls send repeatedly, from one processor, while run runs. It returns how often.
func floodDuring(t *testing.T, send func() error, run func()) (bursts int) {
	t.Helper()
	q, err := openQueues()
	require.NoError(t, err)
	defer q.Close()
	var stop atomic.Bool
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var one unix.CPUSet
		one.Set(runtime.NumCPU() - 1)
		err := unix.SchedSetaffinity(0, &one)
		for err == nil && !stop.Load() {
			if err = q.await(floodQueue); err == nil {
				err = send()
				bursts++
			}
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

// floodSource returns the source address of the flood of a family, floodTarget the destination.
func floodSource(family int) netip.Addr { return workloadAddrs(0)[family] }
func floodTarget(family int) netip.Addr { return workloadAddrs(1)[family] }
