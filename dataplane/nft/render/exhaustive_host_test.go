// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
)

// smallHosts has a state with the host endpoint eth0, and a state with two workloads for each of
// its lists. Their policy is the list. Packets that it leaves undecided are allowed for one of them
// and denied for the other. So the verdicts on workloads give the decision of each list.
type smallHosts struct {
	state dptest.State
	judge dptest.State
}

// The kinds of lists.
const (
	listNormal    = "normal"
	listForward   = "forward"
	listUntracked = "untracked"
	listPreDNAT   = "pre-DNAT"
)

// host makes a state with one host endpoint that has lists of all kinds.
func (w smallWorlds) host() smallHosts {
	h := smallHosts{state: w.sets(), judge: nfttest.InSync()}
	h.judge.Sets, h.judge.Policies = h.state.Sets, h.state.Policies
	h.judge.Profiles["rest"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{nfttest.AllowAll("rest-in")}, Egress: []dataplane.Rule{nfttest.AllowAll("rest-out")},
	}
	e := &dataplane.HostEndpoint{Interface: "eth0"}
	e.Ingress, e.Egress = w.hostTiers(&h, listNormal, policy.Deny)
	e.ForwardIngress, e.ForwardEgress = w.hostTiers(&h, listForward, policy.Deny)
	e.UntrackedIngress, e.UntrackedEgress = w.hostTiers(&h, listUntracked, policy.Pass)
	e.PreDNATIngress, _ = w.hostTiers(&h, listPreDNAT, policy.Pass)
	h.state.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}] = e
	return h
}

// hostTiers makes the policies of one kind, and two tiers of them for each direction.
func (w smallWorlds) hostTiers(h *smallHosts, kind string, end policy.Action) (in, out []dataplane.TierPolicies) {
	for i := range w.IntN(3) {
		tier := dataplane.TierPolicies{Tier: fmt.Sprint("t", i), DefaultAction: end}
		if w.IntN(3) == 0 {
			tier.DefaultAction = policy.Pass
		}
		for j := range 2 {
			key := nfttest.PolicyKey(fmt.Sprintf("%s-%d%d", kind, i, j))
			h.state.Policies[key] = &dataplane.Policy{
				Tier: tier.Tier, Staged: w.IntN(8) == 0, Forward: kind == listForward,
				Untracked: kind == listUntracked, PreDNAT: kind == listPreDNAT,
				Ingress: w.rules(key.Name+"-in", true), Egress: w.rules(key.Name+"-out", false),
			}
			tier.Policies = append(tier.Policies, key)
		}
		in, out = append(in, tier), append(out, tier)
	}
	for rest, profiles := range map[string][]string{"allowed": {"rest"}, "denied": nil} {
		h.judge.Endpoints[nfttest.EndpointKey(kind+"-"+rest)] = &dataplane.Endpoint{
			Ingress: in, Egress: out, Profiles: profiles,
		}
	}
	return in, out
}

// decision returns the decision of a list about a packet: Allow or Deny; Pass if there is none.
func (h *smallHosts) decision(p dptest.Packet, kind string, egress bool) policy.Action {
	judge := func(rest string) bool {
		p.From, p.To = policy.Key{}, nfttest.EndpointKey(kind+"-"+rest)
		if egress {
			p.From, p.To = p.To, p.From
		}
		return h.judge.Judge(p).Allowed()
	}
	switch {
	case judge("denied"):
		return policy.Allow
	case judge("allowed"):
		return policy.Pass
	default:
		return policy.Deny
	}
}

// fate is the result of all hooks of a packet: whether it passes, and whether it is tracked.
type fate struct{ passes, tracked bool }

// received returns the fate of a packet that arrives at eth0, to the host itself or to be
// forwarded.
func (h *smallHosts) received(p dptest.Packet, kind string) fate {
	untracked := h.decision(p, listUntracked, false)
	if untracked != policy.Pass {
		return fate{untracked == policy.Allow, false} // S122
	}
	early := h.decision(p, listPreDNAT, false)
	if early != policy.Pass {
		return fate{early == policy.Allow, true}
	}
	return fate{h.last(p, kind, false), true}
}

// sent returns the fate of a packet that leaves by eth0, from the host itself or forwarded.
func (h *smallHosts) sent(p dptest.Packet, kind string) fate {
	if kind == listNormal {
		if untracked := h.decision(p, listUntracked, true); untracked != policy.Pass {
			return fate{untracked == policy.Allow, false}
		}
	}
	return fate{h.last(p, kind, true), true}
}

// last reports whether the last list of a packet allows it. Without policy, the list for forwarded
// packets allows everything (S110).
func (h *smallHosts) last(p dptest.Packet, kind string, egress bool) bool {
	decision := h.decision(p, kind, egress)
	return decision == policy.Allow || decision == policy.Pass && kind == listForward
}

// TestHostRepresentatives compares the tables with a reference, the decisions of the lists, in
// small random worlds with policy of all kinds. It sends a representative of every kind of packet
// of a host endpoint: to the host, from it, and forwarded in both directions. The tables of all
// forms must have the verdicts of the reference, and write the same log.
func TestHostRepresentatives(t *testing.T) {
	counts := map[fate]int{}
	for _, seed := range worldFlags.Seeds(16, 3) {
		w := smallWorlds{nfttest.NewWorld(seed, 17)}
		h := w.host()
		cfg := render.Config{LogRate: -1, Counters: seed%5 == 4, Reject: seed%7 == 6}
		cfg.Host.FailsafeInbound, cfg.Host.FailsafeOutbound = []policy.Failsafe{}, []policy.Failsafe{}
		var forms []*simulate.Simulator
		for _, classes := range append(nfttest.Forms(), render.ClassesConfig{MaxPerGroup: 9, MaxTotal: 36}) {
			cfg.Classes = classes
			table, errs := nfttest.Rendered(t, cfg, nfttest.Transition(h.state))
			require.Empty(t, errs)
			sim, err := simulate.New(simulate.Config{Table: table})
			require.NoError(t, err)
			forms = append(forms, sim)
		}
		representativesOf(h.state).eachOfHost(func(p dptest.Packet, egress bool) {
			for _, kind := range []string{listNormal, listForward} {
				want := h.received(p, kind)
				if egress {
					want = h.sent(p, kind)
				}
				counts[want]++
				h.compare(t, forms, p, hostWay(kind, egress), want, seed)
			}
		})
	}
	t.Log(counts)
	for _, f := range []fate{{true, true}, {true, false}, {false, true}, {false, false}} {
		require.Greater(t, counts[f], 1000, "%+v", f)
	}
}

// eachOfHost calls f with every packet between the world and an address of the host.
func (r representatives) eachOfHost(f func(p dptest.Packet, egress bool)) {
	for fam, own := range nfttest.Addresses("10.0.0.8", "fd00::8") {
		for _, peer := range r.addrs[fam] {
			r.transports(dptest.Packet{Src: peer, Dst: own}, func(p dptest.Packet) { f(p, false) })
			r.transports(dptest.Packet{Src: own, Dst: peer}, func(p dptest.Packet) { f(p, true) })
		}
	}
}

// hostHook is a hook of a packet, with the packet's interfaces there.
type hostHook struct {
	point    ruleset.HookPoint
	iif, oif string
}

// hostWay returns the hooks of a packet of eth0.
func hostWay(kind string, egress bool) []hostHook {
	switch {
	case kind == listNormal && egress:
		return []hostHook{{ruleset.Output, "", "eth0"}, {ruleset.Postrouting, "", "eth0"}}
	case kind == listNormal:
		return []hostHook{{ruleset.Prerouting, "eth0", ""}, {ruleset.Input, "eth0", ""}}
	case egress:
		return []hostHook{
			{ruleset.Prerouting, "eth1", ""}, {ruleset.Forward, "eth1", "eth0"}, {ruleset.Postrouting, "", "eth0"},
		}
	default:
		return []hostHook{
			{ruleset.Prerouting, "eth0", ""}, {ruleset.Forward, "eth0", "eth1"}, {ruleset.Postrouting, "", "eth1"},
		}
	}
}

// compare runs a packet through the tables of all forms.
func (h *smallHosts) compare(
	t *testing.T, forms []*simulate.Simulator, p dptest.Packet, way []hostHook, want fate, seed uint64,
) {
	t.Helper()
	var first []string
	for i, sim := range forms {
		packet, conn, logs := forwardedPacket(p), simulate.Conn{}, []string(nil)
		packet.Priority = []uint32{0, 1, 2, 4, 6}[int(p.DstPort)%5]
		priority, got := packet.Priority, fate{true, true}
		for _, hook := range way {
			packet.IIFName, packet.OIFName = hook.iif, hook.oif
			r, err := sim.Run(hook.point, packet, conn)
			require.NoError(t, err)
			packet, conn, logs = r.Packet, r.Conn, append(logs, prefixes(r.Logs)...)
			got.tracked = conn.State != ruleset.CtUntracked
			if got.passes = r.Verdict == ruleset.Accept; !got.passes {
				break
			}
		}
		if i == 0 {
			first = logs
		}
		same := got.passes == want.passes && (!got.passes || got.tracked == want.tracked)
		if !same || got.passes && packet.Priority != priority || fmt.Sprint(logs) != fmt.Sprint(first) {
			require.Failf(
				t, "another fate", "seed %d, form %d: %+v, %v: want %+v, got %+v, priority %x\nlogs %q, first %q",
				seed, i, p, way, want, got, packet.Priority, logs, first,
			)
		}
	}
}
