// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/dataplane/felix/internal/translate"
	"github.com/wayleave/wayleave/policy"
)

// benchWorld is a world of pods, some of them local. Each has one of 100 labels, and for each label
// a policy allows traffic from the pods of another.
type benchWorld struct{ local, pods int }

func (w benchWorld) String() string { return fmt.Sprintf("eps=%d/pods=%d", w.local, w.pods) }

// first returns the first batch of the world.
func (w benchWorld) first(b *testing.B) dataplane.Batch {
	b.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: "local"})
	require.NoError(b, err)
	set := func(r policy.Resource) { graph.Update(policy.Update{Key: r.Key(), Resource: r}) }
	const labels = 100
	app := func(n int) string { return "app-" + strconv.Itoa(n%labels) }
	for n := range labels {
		set(&policy.Policy{
			Namespace: "shop", Name: app(n), Selector: fmt.Sprintf("app == %q", app(n)),
			Ingress: []policy.Rule{{
				Action: policy.Allow, Source: policy.EntityRule{Selector: fmt.Sprintf("app == %q", app(n+1))},
			}},
		})
	}
	set(&policy.Profile{Name: "kns.shop", Egress: []policy.Rule{{Action: policy.Allow}}})
	for n := range w.pods {
		e := &policy.WorkloadEndpoint{
			Namespace: "shop", Name: "pod-" + strconv.Itoa(n), Node: "remote", Interface: "cali" + strconv.Itoa(n),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})},
			Labels:    map[string]string{"app": app(n)}, Profiles: []string{"kns.shop"},
		}
		if n < w.local {
			e.Node = "local"
		}
		set(e)
	}
	graph.InSync()
	return graph.Flush()
}

// BenchmarkFirstState translates and encodes the first state for a driver. It reports the messages,
// their bytes, and the bytes of the messages of sets for each member. The Mirror, which only keeps
// the state, has the least possible time.
func BenchmarkFirstState(b *testing.B) {
	w := benchWorld{local: 1_000, pods: 10_000}
	batch := w.first(b)
	b.Run(w.String()+"/mirror", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, dptest.NewMirror().Play(batch))
		}
	})
	for _, dialect := range []Dialect{DialectTiers, DialectKinds} {
		b.Run(w.String()+"/"+dialect.String(), func(b *testing.B) {
			b.ReportAllocs()
			var messages, size, setSize, members int
			for b.Loop() {
				messages, size, setSize, members = 0, 0, 0, 0
				t := translate.New(translate.Dialect(dialect))
				t.Apply(batch, nil)
				var buf []byte
				t.Snapshot(func(m *felixpb.ToDataplane) {
					var err error
					buf, err = appendFrame(buf[:0], m)
					require.NoError(b, err)
					messages++
					size += len(buf)
					if n := len(m.GetIpsetUpdate().GetMembers()); n > 0 { // no set needs a second message
						setSize += len(buf)
						members += n
					}
				})
			}
			b.ReportMetric(float64(messages), "messages")
			b.ReportMetric(float64(size), "message-B")
			b.ReportMetric(float64(setSize)/float64(members), "B/member")
		})
	}
}
