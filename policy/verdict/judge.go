// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// judge judges one flow.
type judge struct {
	e *Evaluator
	// log is where the work is noted. Nil: just the decisions.
	log *log
}

// Evaluate judges a flow.
func (e *Evaluator) Evaluate(f Flow) Result { return judge{e: e}.flow(f).Result }

// Explain judges a flow and shows the work.
func (e *Evaluator) Explain(f Flow) *Explanation { return judge{e: e, log: &log{}}.flow(f) }

func (j judge) flow(f Flow) *Explanation {
	f = f.canonical()
	x := &Explanation{Flow: f}
	err := f.Validate()
	switch {
	case err != nil:
	case f.Node != "":
		x.Stages, err = j.pass(f)
		x.Egress, x.Ingress = sumUp(policy.Egress, x.Stages), sumUp(policy.Ingress, x.Stages)
	default:
		p := j.packet(f)
		from, to := j.e.workload(f.SrcEndpoint, f.Src, ""), j.e.workload(f.DstEndpoint, f.Dst, "")
		p.State = f.stateAt(from, to)
		x.Egress = j.endpoint(policy.Egress, from, p)
		x.Ingress = j.endpoint(policy.Ingress, to, p)
	}
	if err != nil {
		invalid := Decision{By: ByInvalidFlow, Detail: err.Error()}
		x.Egress = &Direction{Type: policy.Egress, Outcome: Deny, Decision: invalid}
		x.Ingress = &Direction{Type: policy.Ingress, Outcome: Deny, Decision: invalid}
	}
	x.Result = combine(x.Egress.Outcome, x.Ingress.Outcome)
	return x
}

// packet makes a packet of the flow with what the world knows of its addresses.
func (j judge) packet(f Flow) *packet {
	return &packet{
		Flow:        f,
		source:      side{addr: f.Src, port: f.SrcPort, objects: j.e.objectsAt(f.Src)},
		destination: side{addr: f.Dst, port: f.DstPort, objects: j.e.objectsAt(f.Dst)},
	}
}

// endpoint judges by the policy of one workload endpoint, wherever it is.
func (j judge) endpoint(dir policy.Type, o *object, p *packet) *Direction {
	if o == nil {
		return &Direction{Type: dir, Outcome: NotApplicable, Decision: Decision{By: ByNoEndpoint}}
	}
	return j.direction(walk{packet: p, endpoint: o, state: p.State}, dir)
}

// direction walks through the policy of an endpoint, and where there are staged policies, once
// more as if they were enforced.
func (j judge) direction(w walk, dir policy.Type) *Direction {
	w.judge = j
	w.to = &Direction{Type: dir, Endpoint: w.endpoint.key}
	w.run()
	if j.log != nil && w.staged() {
		next := w
		next.log, next.promote = nil, true
		next.to, next.before = &Direction{Type: dir}, w.to
		next.run()
		w.to.IfStagedEnforced, w.to.IfStagedDecision = next.to.Outcome, next.to.Decision
	}
	return w.to
}

// sumUp returns one Direction for the stages of a type: the first that denies, or else the
// last that allows.
func sumUp(dir policy.Type, stages []*Direction) *Direction {
	sum := &Direction{Type: dir, Outcome: NotApplicable, Decision: Decision{By: ByNoEndpoint}}
	for _, d := range stages {
		if d.Type != dir || d.Outcome == NotApplicable {
			continue
		}
		sum = &Direction{Type: dir, Stage: d.Stage, Endpoint: d.Endpoint, Outcome: d.Outcome, Decision: d.Decision}
		if d.Outcome == Deny {
			break
		}
	}
	return sum
}

// log has the room for the steps of an explanation, so that they need not be allocated one by one.
type log struct {
	rules      room[RuleStep]
	mismatches room[Mismatch]
}

// room hands out short parts of long arrays.
type room[T any] struct {
	free []T // nothing but capacity
	made int // the size of the last array
}

// atLeast makes room for n more and returns it, with a length of 0. What is appended must be taken.
func (r *room[T]) atLeast(n int) []T {
	if cap(r.free) < n {
		r.free = make([]T, 0, max(n, 16, min(4*r.made, 8192)))
		r.made = cap(r.free)
	}
	return r.free[:0:n]
}

// take makes what was appended to the room the caller's.
func (r *room[T]) take(part []T) []T {
	if len(part) == 0 {
		return nil
	}
	r.free = r.free[:cap(r.free)][len(part):][:0]
	return part[:len(part):len(part)]
}
