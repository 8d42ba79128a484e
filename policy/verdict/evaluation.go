// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// evaluation evaluates one flow.
type evaluation struct {
	e *Evaluator
	// log has memory for the steps. If it is nil, no steps are recorded.
	log *log
}

// Evaluate returns the verdict of a flow.
func (e *Evaluator) Evaluate(f Flow) Result { return evaluation{e: e}.flow(f).Result }

// Explain returns the verdict of a flow with all steps.
func (e *Evaluator) Explain(f Flow) *Explanation { return evaluation{e: e, log: &log{}}.flow(f) }

func (v evaluation) flow(f Flow) *Explanation {
	f = f.canonical()
	x := &Explanation{Flow: f}
	err := f.Validate()
	switch {
	case err != nil:
	case f.Node != "":
		x.Stages, err = v.stages(f)
		x.Egress, x.Ingress = sumUp(policy.Egress, x.Stages), sumUp(policy.Ingress, x.Stages)
	default:
		p := v.packet(f)
		from, to := v.e.workload(f.SrcEndpoint, f.Src, ""), v.e.workload(f.DstEndpoint, f.Dst, "")
		p.State = f.stateAt(from, to)
		x.Egress = v.endpoint(policy.Egress, from, p)
		x.Ingress = v.endpoint(policy.Ingress, to, p)
	}
	if err != nil {
		invalid := Decision{By: ByInvalidFlow, Detail: err.Error()}
		x.Egress = &Direction{Type: policy.Egress, Outcome: Deny, Decision: invalid}
		x.Ingress = &Direction{Type: policy.Ingress, Outcome: Deny, Decision: invalid}
	}
	x.Result = combine(x.Egress.Outcome, x.Ingress.Outcome)
	return x
}

// packet returns the flow with the objects of its addresses.
func (v evaluation) packet(f Flow) *packet {
	return &packet{
		Flow:        f,
		source:      side{addr: f.Src, port: f.SrcPort, objects: v.e.objectsAt(f.Src)},
		destination: side{addr: f.Dst, port: f.DstPort, objects: v.e.objectsAt(f.Dst)},
	}
}

// endpoint evaluates the policy of a workload endpoint, without a node.
func (v evaluation) endpoint(dir policy.Type, o *object, p *packet) *Direction {
	if o == nil {
		return &Direction{Type: dir, Outcome: NotApplicable, Decision: Decision{By: ByNoEndpoint}}
	}
	return v.direction(walk{packet: p, endpoint: o, state: p.State}, dir)
}

// direction evaluates the policy of an endpoint. If there are staged policies, it evaluates again
// as if they were enforced.
func (v evaluation) direction(w walk, dir policy.Type) *Direction {
	w.evaluation = v
	w.result = &Direction{Type: dir, Endpoint: w.endpoint.key}
	w.run()
	if v.log != nil && w.staged() {
		next := w
		next.log, next.enforceStaged = nil, true
		next.result, next.previous = &Direction{Type: dir}, w.result
		next.run()
		w.result.IfStagedEnforced, w.result.IfStagedDecision = next.result.Outcome, next.result.Decision
	}
	return w.result
}

// sumUp returns one Direction for the stages of a type: the first one that denies, or else the last
// one that allows.
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

// log allocates the steps of an explanation in large arrays.
type log struct {
	rules      arena[RuleStep]
	mismatches arena[Mismatch]
}

// arena allocates short slices from large arrays.
type arena[T any] struct {
	free []T // length 0: only the capacity is used
	made int // capacity of the last array
}

// reserve returns an empty slice with capacity n. The caller appends to it and calls commit.
func (r *arena[T]) reserve(n int) []T {
	if cap(r.free) < n {
		r.free = make([]T, 0, max(n, 16, min(4*r.made, 8192)))
		r.made = cap(r.free)
	}
	return r.free[:0:n]
}

// commit ends the reservation and returns the slice.
func (r *arena[T]) commit(part []T) []T {
	if len(part) == 0 {
		return nil
	}
	r.free = r.free[:cap(r.free)][len(part):][:0]
	return part[:len(part):len(part)]
}
