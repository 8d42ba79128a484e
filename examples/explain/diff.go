// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/explain/internal/folder"
	"github.com/wayleave/wayleave/examples/internal/alike"
	"github.com/wayleave/wayleave/examples/internal/change"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/examples/internal/question"
	"github.com/wayleave/wayleave/examples/internal/sample"
)

// maxFlows is how many flows a diff tries unless it is told otherwise: some minutes' worth.
const maxFlows = 5_000_000

func diffCommand() cli.Command {
	return cli.Command{
		Name:    "diff",
		Args:    "OLD NEW",
		Summary: "show which verdicts differ between two folders",
		About: `Shows what a change of policy does before it is made: which flows get another verdict in the
manifests of NEW (a folder or a file) than in those of OLD, and what decided before and after.
Examples:

  explain diff old new
  explain diff old new --port tcp/5432 --external 198.51.100.7
  explain diff old new --explain

Without flags it tries, between all pods that are in both, every port that policies or pods mention
and one that nobody does, pings and other protocols, and the same to and from one address of every
network that is mentioned and one that is not: enough to find every change that does not hang on the
source port. Pods that policy cannot tell apart are tried once. Pods that are in one folder only, or
have other addresses, are listed and not tried. If there are more flows to try than --max-flows,
nothing is tried.

A flow is listed as well where it is still denied, but no longer by both sides, or by both now. Exit
status: 0 if nothing changes, 1 if a verdict does or the pods differ, 2 for an error.
` + partiesHelp + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q diffQuestion
			q.reading.flags(flags)
			flags.Var(&q.ports, "port", "`PORT` to try instead of all that count; may be repeated")
			flags.Var(&q.external, "external",
				"`ADDRESS` outside to try instead of one of each network; may be repeated")
			flags.IntVar(&q.maxFlows, "max-flows", maxFlows, "try at most this `NUMBER` of flows")
			flags.BoolVar(&q.explain, "explain", false, "print the whole explanations, of one flow for each line")
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 2 {
					return cli.Usagef("diff: want OLD and NEW, two folders or files of manifests")
				}
				return q.ask(ctx, c, args[0], args[1])
			}
		},
	}
}

// diffQuestion is the question of one command line.
type diffQuestion struct {
	reading
	ports, external texts
	maxFlows        int
	explain, json   bool
}

func (q *diffQuestion) ask(ctx context.Context, c cli.Console, oldPath, newPath string) error {
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
	var pods []question.Party
	pods, r.OnlyOld, r.OnlyNew, r.Moved = common(before, after)
	r.SourcePorts = sample.Ports(before.World, after.World).SourcePorts
	if len(ports) == 0 {
		ports = sample.Ports(before.World, after.World).Ports
	}
	run := change.Run{Before: before.Evaluator, After: after.Evaluator, Ports: ports}
	if run.Parties, err = q.parties(before, after, pods); err != nil {
		return err
	}
	if r.Flows = run.Flows(); r.Flows > q.maxFlows {
		return tooMany(r.Flows, q.maxFlows)
	}
	for _, p := range ports {
		r.Ports = append(r.Ports, p.String())
	}
	for _, g := range run.Parties {
		r.Parties = append(r.Parties, names(g))
	}
	progress := newProgress(c, "senders tried")
	run.Progress = progress.report
	if err := r.write(ctx, run, rejections(before, after), progress.end); err != nil {
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

// parties returns who is tried: pods that are alike in groups, and addresses outside.
func (q *diffQuestion) parties(before, after *folder.Folder, pods []question.Party) ([]alike.Group, error) {
	space := alike.NewSpace(before.World, after.World)
	groups := space.Groups(pods)
	outside, err := addresses("external", q.external)
	if err != nil {
		return nil, err
	}
	if len(q.external) == 0 {
		outside = space.Outside()
	}
	for _, party := range outside {
		groups = append(groups, alike.Group{party})
	}
	return groups, nil
}

// common returns the pods that are in both folders, with the addresses that they have in both, and
// the names of those that are in one alone or have no address in common.
func common(before, after *folder.Folder) (pods []question.Party, onlyOld, onlyNew, moved []string) {
	byName := map[string]question.Party{}
	for _, p := range before.Book.Pods() {
		byName[p.Name] = p
	}
	for _, now := range after.Book.Pods() {
		was, ok := byName[now.Name]
		delete(byName, now.Name)
		if !ok {
			onlyNew = append(onlyNew, now.Name)
			continue
		}
		both := slices.DeleteFunc(slices.Clone(now.Addresses), func(a netip.Addr) bool {
			return !slices.Contains(was.Addresses, a)
		})
		if len(both) < max(len(now.Addresses), len(was.Addresses)) {
			moved = append(moved, now.Name)
		}
		if len(both) == 0 {
			continue
		}
		now.Addresses = both
		for _, port := range was.Ports {
			if !slices.Contains(now.Ports, port) {
				now.Ports = append(slices.Clip(now.Ports), port)
			}
		}
		pods = append(pods, now)
	}
	for name := range byName {
		onlyOld = append(onlyOld, name)
	}
	slices.Sort(onlyOld)
	return pods, onlyOld, onlyNew, moved
}

// names returns the names of a group.
func names(g alike.Group) []string {
	var out []string
	for _, p := range g {
		out = append(out, p.Name)
	}
	return out
}

// label is what a group is called in the text.
func label(g alike.Group) string {
	if len(g) == 1 {
		return g[0].Name
	}
	return strings.Join(names(g), ", ")
}
