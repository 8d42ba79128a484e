// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// comparison measures implementations of network policy on one cluster, in rounds.
type comparison struct {
	c        *cluster
	pods     int
	policies []int // on one server, for connections
	rounds   int
	idle     time.Duration
	edits    int
	only     string // step
	server   podAddress
	targets  []podAddress
}

func runCompare(ctx context.Context, c *cluster, args []string) error {
	m := &comparison{c: c}
	flags := flag.NewFlagSet("cluster compare", flag.ContinueOnError)
	flags.IntVar(&m.pods, "pods", 100, "`number` of pods that an edit denies and allows again")
	policies := flags.String("policies", "1,100,1000", "`numbers` of policies on one server, separated by commas")
	flags.IntVar(&m.rounds, "rounds", 3, "`number` of rounds; each measures every implementation once")
	flags.StringVar(&m.only, "only", "", "only this `step`: idle, edits, connections or churn")
	flags.IntVar(&m.edits, "edits", 3, "`number` of edits in a round; each denies all pods, then allows them")
	flags.DurationVar(&m.idle, "idle", 30*time.Second, "`time` for which idle implementations are measured")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: cluster compare [FLAGS] [IMPLEMENTATION...]\n\n"+
			"Measure implementations of NetworkPolicy on the cluster in rounds. Each round measures every\n"+
			"implementation once. The agents of Wayleave always give pods their network. While another\n"+
			"implementation is measured, they read no policy.\n"+
			"The implementations, all by default:\n\n")
		for _, i := range implementations() {
			fmt.Fprintf(flags.Output(), "  %-24s %s\n", i.name, i.title)
		}
		fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	for number := range strings.SplitSeq(*policies, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return fmt.Errorf("compare: --policies %q is not a list of numbers above 0", *policies)
		}
		m.policies = append(m.policies, n)
	}
	if m.pods < 1 || m.rounds < 1 || m.edits < 1 || m.idle <= 0 {
		return errors.New("compare: --pods, --rounds, --edits and --idle must be above 0")
	}
	if !slices.Contains([]string{"", "idle", "edits", "connections", "churn"}, m.only) {
		return fmt.Errorf("compare: --only %q is not a step", m.only)
	}
	chosen, err := choose(c, names)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if err := m.run(ctx, chosen); err != nil {
		return fmt.Errorf("compare: %w", errors.New(err.Error())) // exit codes of commands are not those of this one
	}
	return nil
}

// runUse stops the implementation that enforces policy, and starts another one.
func runUse(ctx context.Context, c *cluster, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cluster use IMPLEMENTATION; 'cluster compare --help' lists them")
	}
	chosen, err := choose(c, args)
	if err != nil {
		return fmt.Errorf("use: %w", err)
	}
	m := &comparison{c: c}
	for _, i := range implementations() {
		if err := i.stop(m, ctx); err != nil {
			return fmt.Errorf("use: end %s: %w", i.name, err)
		}
	}
	if err := chosen[0].start(m, ctx); err != nil {
		return fmt.Errorf("use: start %s: %w", chosen[0].name, err)
	}
	return nil
}

// choose returns the implementations with these names, by default all, if they are built and a
// cluster runs.
func choose(c *cluster, names []string) ([]implementation, error) {
	chosen := implementations()
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			i := slices.IndexFunc(implementations(), func(i implementation) bool { return i.name == name })
			if i < 0 {
				return nil, fmt.Errorf("no implementation %q; 'cluster compare --help' lists them", name)
			}
			chosen = append(chosen, implementations()[i])
		}
	}
	for _, i := range chosen {
		if _, err := os.Stat(c.bin(i.program)); err != nil {
			return nil, fmt.Errorf("%s is not built: scripts/build-suites %s builds it", i.name, i.name)
		}
	}
	if _, err := machine.Open(c.machine(controlName)); err != nil {
		return nil, fmt.Errorf("no cluster runs: %w", err)
	}
	if c.Proxy == "iptables" {
		return nil, errors.New("this command flushes the iptables tables filter and mangle on all nodes; " +
			"start the cluster with --proxy nftables")
	}
	return chosen, nil
}

// run measures the chosen implementations. If one fails, it prints the figures up to then.
func (m *comparison) run(ctx context.Context, chosen []implementation) (err error) {
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitLimit)
		defer cancel()
		if problem := step("Clean up", func() error { return m.cleanUp(cleaning) }); problem != nil {
			err = errors.Join(err, problem)
		}
	}()
	if err := step(fmt.Sprintf("%d pods", m.pods+2), func() error { return m.makePods(ctx) }); err != nil {
		return err
	}
	figures := newFigures(chosen)
	defer func() { figures.write(os.Stdout) }()
	for round := range m.rounds {
		// Each round begins with a different implementation, so drift within a round does not
		// always affect the same one.
		first := round % len(chosen)
		for _, i := range slices.Concat(chosen[first:], chosen[:first]) {
			fmt.Printf("\nRound %d: %s\n", round+1, i.name)
			if err := m.measure(ctx, i, figures); err != nil {
				return fmt.Errorf("%s: %w", i.name, err)
			}
		}
	}
	return nil
}

// measure measures one implementation.
func (m *comparison) measure(ctx context.Context, i implementation, f *figures) error {
	add := func(row string, value float64) { f.add(i.name, row, value) }
	policies := func(n int) error { return m.replacePolicies(ctx, manyPolicies(n, m.pods)) }
	for _, s := range []struct {
		step, name string
		run        func() error
	}{
		{"", "1000 egress policies", func() error { return policies(1000) }},
		{"", "Start", func() error { return m.start(ctx, i, add) }},
		{"idle", "Idle", func() error { return m.measureIdle(ctx, i, add) }},
		{"edits", "Policy edits", func() error { return m.edit(ctx, i, add) }},
		{"connections", "Connections", func() error { return m.connections(ctx, i, add) }},
		{"churn", "Churn of pods", func() error { return m.churn(ctx, i, add) }},
		{"", "End", func() error { return i.stop(m, ctx) }},
	} {
		if m.only != "" && s.step != "" && s.step != m.only {
			continue
		}
		if err := step(s.name, s.run); err != nil {
			return err
		}
	}
	return nil
}
