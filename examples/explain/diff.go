// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"slices"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy/probe"
)

// maxFlows is the default limit of the flows that a diff evaluates. That many take some minutes.
const maxFlows = probe.DefaultMaxFlows

func diffCommand() cli.Command {
	return cli.Command{
		Name:    "diff",
		Args:    "OLD NEW",
		Summary: "show which verdicts differ between two folders",
		About: `Shows which flows would get another verdict if the manifests of NEW replaced those of OLD, and
which rules decide before and after. OLD and NEW are folders or files. Examples:

  explain diff old new
  explain diff old new --port tcp/5432 --external 198.51.100.7
  explain diff old new --explain

The command tries flows between all pods that are in both OLD and NEW. It also tries flows between these pods
and one address of each network that policies mention, and one address outside of all these networks. Each
flow is tried with each port that policies or pods mention, with one other port, with pings and with other
protocols. This finds every change, except one that depends on the source port. Of pods that policy cannot
tell apart, it tries one. Pods that are only in OLD or only in NEW, or whose addresses differ, are listed and
not tried. If there are more flows than --max-flows, the command tries none.

A flow can be denied by its source, by its destination or by both. If it is denied before and after, but not
by the same parties, it is listed, too. The exit status is 0 if nothing changes, 1 if a verdict changes or the
pods differ, and 2 after an error.` + partiesHelp + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q diffQuestion
			q.reading.flags(flags)
			flags.Var(&q.ports, "port", "`PORT` to try, instead of all ports that matter; may be repeated")
			flags.Var(&q.external, "external",
				"`ADDRESS` outside to try instead of one of each network; may be repeated")
			flags.IntVar(&q.maxFlows, "max-flows", maxFlows, "try at most this `NUMBER` of flows")
			flags.BoolVar(&q.explain, "explain", false, "print the whole explanation of one flow of each line")
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 2 {
					return cli.Usagef("diff: want OLD and NEW, two folders or files of manifests")
				}
				return q.run(ctx, c, args[0], args[1])
			}
		},
	}
}

// diffQuestion has the arguments of one command line.
type diffQuestion struct {
	reading
	ports, external texts
	maxFlows        int
	explain, json   bool
}

func (q *diffQuestion) run(ctx context.Context, c cli.Console, oldPath, newPath string) error {
	ports, err := parsePorts("diff", q.ports)
	if err != nil {
		return err
	}
	before, err := q.read(c, "OLD: ", oldPath)
	if err != nil {
		return err
	}
	after, err := q.read(c, "NEW: ", newPath)
	if err != nil {
		return err
	}
	r := report{question: q, console: c}
	common := probe.Intersect(before.Index, after.Index)
	r.OnlyOld, r.OnlyNew, r.Moved = common.OnlyBefore, common.OnlyAfter, common.Moved
	partition := probe.NewPartition(before.World, after.World)
	r.SourcePorts = partition.SourcePorts()
	if len(ports) == 0 {
		ports = partition.Ports()
	}
	run := probe.Comparison{Before: before.Evaluator, After: after.Evaluator, Ports: ports}
	if run.Parties, err = q.parties(partition, common.Parties); err != nil {
		return err
	}
	if r.Flows = run.Flows(); r.Flows > q.maxFlows {
		return tooMany(r.Flows, q.maxFlows)
	}
	for _, p := range ports {
		r.Ports = append(r.Ports, p.String())
	}
	for _, g := range run.Parties {
		r.Parties = append(r.Parties, g.Names())
	}
	progress := cli.NewProgress(c, "senders tried")
	run.Progress = func(done, all int) error {
		progress.Report(done, all)
		return ctx.Err()
	}
	if err := r.write(run, rejections(before, after), progress.End); err != nil {
		return err
	}
	status := 0
	if r.pairs > 0 || len(r.OnlyOld)+len(r.OnlyNew)+len(r.Moved) > 0 {
		status = isDenied
	}
	return q.status(c, status, before, after)
}

func tooMany(flows, limit int) error {
	return errors.New("diff: " + count(flows, "flow") + " to try, and --max-flows is " + count(limit, "flow") +
		": nothing was tried. Name the ports with --port, the addresses outside with --external, or raise --max-flows")
}

// parties returns the parties between which flows are evaluated: groups of pods that policy does
// not distinguish, and addresses outside.
func (q *diffQuestion) parties(partition *probe.Partition, pods []probe.Party) ([]probe.Group, error) {
	outside, err := addresses("external", q.external)
	if err != nil {
		return nil, err
	}
	if len(q.external) == 0 {
		outside = partition.Outside()
	}
	return partition.Groups(slices.Concat(pods, outside)), nil
}
