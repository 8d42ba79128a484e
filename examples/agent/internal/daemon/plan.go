// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// maxFlows is the maximum number of flows that a plan evaluates. That many take some seconds.
const maxFlows = 2_000_000

// plan returns the changes that another folder of manifests would cause.
func (d *Daemon) plan(r *http.Request, p *pipeline.Pipeline) (any, error) {
	folder, err := read[api.Folder](r)
	if err != nil {
		return nil, err
	}
	now := p.World()
	next, rejected := nextWorld(p, folder)
	answer := api.Plan{Objects: objects(now, next), Flips: []api.Flip{}, Rejected: rejected}
	if answer.Kernel, err = p.Plan(r.Context(), maps.Clone(next)); err != nil {
		return nil, err
	}
	err = flips(r.Context(), &answer, now, next)
	return answer, err
}

// nextWorld returns the objects that the agent would have with a folder instead of its manifests,
// or in addition to all its objects.
func nextWorld(p *pipeline.Pipeline, folder api.Folder) (next verdict.World, rejected []string) {
	rejected = []string{}
	files := verdict.World{}
	for _, name := range slices.Sorted(maps.Keys(folder.Files)) {
		resources, problems := p.Decode(name, []byte(folder.Files[name]))
		for _, problem := range problems {
			if !errors.Is(problem, convert.ErrIgnored) {
				rejected = append(rejected, problem.Error())
			}
		}
		for _, r := range resources {
			if files[r.Key()] != nil {
				rejected = append(rejected, fmt.Sprintf("%s: %s is in an earlier file", name, r.Key()))
				continue
			}
			files[r.Key()] = r
		}
	}
	// Manifests have the highest precedence of all sources.
	if folder.OnTop {
		return p.WorldWith(files), rejected
	}
	return p.WorldWith(files, pipeline.SourceManifests), rejected
}

// objects lists the objects that differ between now and next, sorted.
func objects(now, next verdict.World) []string {
	list := []string{}
	both := maps.Clone(now)
	maps.Copy(both, next)
	for _, key := range slices.SortedFunc(maps.Keys(both), policy.Key.Compare) {
		switch {
		case now[key] == nil:
			list = append(list, "+ "+key.String())
		case next[key] == nil:
			list = append(list, "- "+key.String())
		case !policy.Equal(now[key], next[key]):
			list = append(list, "~ "+key.String())
		}
	}
	return list
}

// flips adds to the answer the flows whose verdict would change. It evaluates flows between pods
// that have the same addresses in now and next, and between these pods and all addresses in the
// policies.
func flips(ctx context.Context, answer *api.Plan, now, next verdict.World) error {
	partition := probe.NewPartition(now, next)
	run := probe.Comparison{
		Before: verdict.New(now), After: verdict.New(next),
		Parties: partition.Groups(slices.Concat(stable(now, next), partition.Outside())), Ports: partition.Ports(),
		Progress: func(int, int) error { return ctx.Err() },
	}
	if answer.Flows = run.Flows(); answer.Flows > maxFlows {
		answer.NotTried = fmt.Sprintf("%d flows would have to be tried, more than %d: see 'explain diff'", answer.Flows,
			maxFlows)
		return nil
	}
	return run.Each(func(pair probe.PairChange) error {
		for _, c := range pair.Changes {
			if c.Before == c.After {
				continue // denied both times, but not by the same side
			}
			f := api.Flip{
				From: pair.From, To: pair.To, Was: probe.Decisions(c.Example.Before),
				Now: probe.Decisions(c.Example.After), Before: string(c.Before), After: string(c.After),
			}
			for _, port := range c.Ports {
				f.Ports = append(f.Ports, port.Port)
			}
			answer.Flips = append(answer.Flips, f)
		}
		return nil
	})
}

// stable returns the pods that have the same addresses in now and next.
func stable(now, next verdict.World) []probe.Party {
	addresses := map[policy.Key][]netip.Addr{}
	for _, pod := range probe.NewIndex(now).Endpoints() {
		addresses[pod.Endpoint] = pod.Addresses
	}
	return slices.DeleteFunc(probe.NewIndex(next).Endpoints(), func(pod probe.Party) bool {
		return len(pod.Addresses) == 0 || !slices.Equal(pod.Addresses, addresses[pod.Endpoint])
	})
}
