// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func tuple(protocol uint8, src, dst string) conntrack.Tuple {
	return conntrack.Tuple{
		Source: netip.MustParseAddrPort(src), Destination: netip.MustParseAddrPort(dst), Protocol: protocol,
	}
}

// flow returns a flow without translation.
func flow(protocol uint8, src, dst string) conntrack.Flow {
	return conntrack.Flow{Original: tuple(protocol, src, dst), Reply: tuple(protocol, dst, src)}
}

// numbered returns a flow to port i, from an address and a port that depend on i.
func numbered(i int) conntrack.Flow {
	f := flow(
		17, fmt.Sprintf("10.%d.%d.%d:%d", 1+i>>16, i>>8&255, i&255, 1024+i%60000),
		fmt.Sprintf("192.0.2.1:%d", 1+i%65535),
	)
	f.ID = uint32(i) * 2654435761
	return f
}

// fakeKernel is a table of flows.
type fakeKernel struct {
	flows []conntrack.Flow
	// refuse returns the error number for the deletion of a flow, or 0.
	refuse func(conntrack.Flow) syscall.Errno
	// dumped is called when a dump begins.
	dumped func(number int)
	// interrupt reports whether a part of a dump, counted from 1, is marked as interrupted.
	interrupt func(number int) bool
	dumps     int
	perPart   int
	// filter reports whether a filtered dump has a flow, given whether the flow matches. nil
	// returns the latter.
	filter func(family uint8, match bool) bool
	// refuseFilters is the error number of such a dump.
	refuseFilters syscall.Errno
	filtered      int // dumps that had a filter
	// more is the surplus in the reported number of flows.
	more int
}

func newFakeKernel(flows ...conntrack.Flow) *fakeKernel {
	return &fakeKernel{flows: flows, perPart: 10}
}

func (k *fakeKernel) dial() (*conntrack.Conn, error) {
	var queue [][]byte
	return conntrack.NewConn(&conntrack.FakeSocket{
		OnSend: func(request []byte) error {
			requests, err := conntrack.ParseRequests(request)
			if err != nil {
				return err
			}
			for _, r := range requests {
				datagrams, err := k.answer(r)
				if err != nil {
					return err
				}
				queue = append(queue, datagrams...)
			}
			return nil
		},
		OnReceive: func(buf []byte) (int, error) {
			if len(queue) == 0 {
				return 0, syscall.EAGAIN
			}
			n := copy(buf, queue[0])
			queue = queue[1:]
			return n, nil
		},
	}), nil
}

// answer returns the datagrams that answer a request.
func (k *fakeKernel) answer(r conntrack.Request) (datagrams [][]byte, err error) {
	switch {
	case r.Delete:
		return [][]byte{conntrack.AppendAnswer(nil, r.Sequence, k.remove(r.Flow))}, nil
	case r.Dump:
		k.dumps++
		if k.dumped != nil {
			k.dumped(k.dumps)
		}
		intr := k.interrupt != nil && k.interrupt(k.dumps)
		flows := k.flows
		if r.Source || r.Destination {
			k.filtered++
			if k.refuseFilters != 0 {
				return [][]byte{conntrack.AppendAnswer(nil, r.Sequence, k.refuseFilters)}, nil
			}
			flows = k.matching(r)
		}
		for part := range slices.Chunk(flows, k.perPart) {
			var b []byte
			for i := range part {
				if b, err = conntrack.AppendFlow(b, r.Sequence, &part[i], intr); err != nil {
					return nil, err
				}
			}
			datagrams = append(datagrams, b)
		}
		return append(datagrams, conntrack.AppendEnd(nil, r.Sequence, 0)), nil
	case r.Stats:
		count, err := conntrack.AppendCount(nil, r.Sequence, len(k.flows)+k.more)
		return [][]byte{count}, err
	}
	return nil, fmt.Errorf("unknown request %+v", r)
}

// matching returns the flows that a filter selects.
func (k *fakeKernel) matching(r conntrack.Request) (flows []conntrack.Flow) {
	for _, f := range k.flows {
		have, want := f.Original, r.Flow.Original
		if r.Reply {
			have, want = f.Reply, r.Flow.Reply
		}
		match := r.Source && have.Source.Addr() == want.Source.Addr() || r.Destination &&
			have.Destination.Addr() == want.Destination.Addr()
		if k.filter != nil {
			match = k.filter(r.Family, match)
		}
		if match && f.Is4() == (r.Family == 2) {
			flows = append(flows, f)
		}
	}
	return flows
}

func (k *fakeKernel) remove(wanted conntrack.Flow) syscall.Errno {
	i := slices.IndexFunc(k.flows, func(f conntrack.Flow) bool {
		return f.Original == wanted.Original && f.ID == wanted.ID && f.Zone == wanted.Zone
	})
	if i < 0 {
		return syscall.ENOENT
	}
	if k.refuse != nil {
		if errno := k.refuse(k.flows[i]); errno != 0 {
			return errno
		}
	}
	k.flows = slices.Delete(slices.Clone(k.flows), i, i+1)
	return 0
}
