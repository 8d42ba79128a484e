// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// suite is an external test program. It runs in the cluster's network.
type suite struct {
	name, title string
	// version prints the suite's version.
	version func(c *cluster) (string, error)
	// command returns the arguments that write results to a folder. Only tests whose names match
	// the regular expression focus run, all of the suite if it is empty.
	command func(c *cluster, folder, focus string) []string
	// results reads them.
	results func(folder string) ([]result, error)
	// progress returns the text to print for a line of the output, "" for most lines.
	progress func(line string) string
	// minTests is the number of tests that have to run without a focus. With fewer, the suite
	// itself has failed.
	minTests int
}

// reason is why tests whose names contain a text do not run.
type reason struct{ test, why string }

// result is the outcome of one test.
type result struct {
	test    string
	outcome outcome
	message string // of one that did not pass
}

type outcome string

const (
	passed   outcome = "passed"
	failed   outcome = "failed"
	skipped  outcome = "skipped"  // by the suite itself
	excluded outcome = "excluded" // because the cluster cannot run it
)

func runTest(ctx context.Context, c *cluster, args []string) error {
	flags := flag.NewFlagSet("cluster test", flag.ContinueOnError)
	focus := flags.String("focus", "", "run only tests whose names match this regular `expression`")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: cluster test [FLAGS] [SUITE...]\n\nThe suites, all by default:")
		for _, s := range suites() {
			fmt.Fprintf(flags.Output(), "  %-14s %s\n", s.name, s.title)
		}
		fmt.Fprintln(flags.Output(), "\nParts of them:")
		for _, s := range selections() {
			fmt.Fprintf(flags.Output(), "  %-14s %s\n", s.name, s.title)
		}
		fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	chosen := suites()
	if len(names) > 0 {
		chosen = nil
		known := append(suites(), selections()...)
		for _, name := range names {
			i := slices.IndexFunc(known, func(s suite) bool { return s.name == name })
			if i < 0 {
				return fmt.Errorf("test: no suite %q; 'cluster test --help' lists the suites", name)
			}
			chosen = append(chosen, known[i])
		}
	}
	control, err := machine.Open(c.machine(controlName))
	if err != nil {
		return fmt.Errorf("test: no cluster runs: %w", err)
	}
	var tables []table
	var problems []error
	for _, s := range chosen {
		t, err := c.runSuite(ctx, control, s, *focus)
		if err != nil {
			problems = append(problems, fmt.Errorf("suite %s: %w", s.name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		tables = append(tables, t)
	}
	fmt.Printf("\n%s\n\n", c.versions(ctx))
	writeTables(os.Stdout, tables)
	var failures int
	for _, t := range tables {
		failures += t.count(failed)
	}
	if failures > 0 {
		problems = append(problems, fmt.Errorf("%d tests failed; logs: %s", failures, c.results()))
	}
	return errors.Join(problems...)
}

// versions returns the date, and the versions of the components of the cluster.
func (c *cluster) versions(ctx context.Context) string {
	commit := "unknown"
	git := exec.CommandContext(ctx, "git", "-C", c.repository, "describe", "--always", "--dirty")
	if printed, err := git.Output(); err == nil {
		commit = strings.TrimSpace(string(printed))
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	return fmt.Sprintf("%s, commit %s, Linux %s, %d nodes, routes %s, kube-proxy %s",
		time.Now().UTC().Format(time.DateOnly), commit, strings.TrimSpace(string(kernel)), c.Nodes, c.Routes, c.Proxy)
}

func (c *cluster) results(elements ...string) string {
	return c.bin(append([]string{"cluster-results"}, elements...)...)
}

// runSuite runs a suite and reads its results. A failed test is no error.
func (c *cluster) runSuite(ctx context.Context, control *machine.Machine, s suite, focus string) (table, error) {
	folder := c.results(s.name)
	if err := os.RemoveAll(folder); err != nil {
		return table{}, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return table{}, err
	}
	version, err := s.version(c)
	if err != nil {
		return table{}, err
	}
	log, err := os.Create(folder + "/log")
	if err != nil {
		return table{}, err
	}
	defer log.Close()
	fmt.Printf("== %s, %s. Log: %s\n", s.title, version, log.Name())

	start := time.Now()
	cmd := control.NetCommand(ctx, s.command(c, folder, focus)...)
	cmd.Env = c.clientEnvironment()
	// On an interrupt, the suite removes its objects from the cluster.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		printProgress(reader, log, s.progress)
	}()
	err = cmd.Run()
	writer.Close()
	<-printed
	var exit *exec.ExitError
	if ctx.Err() != nil || (err != nil && !errors.As(err, &exit)) {
		return table{}, errors.Join(err, ctx.Err())
	}
	results, readErr := s.results(folder)
	if readErr == nil && len(results) == 0 {
		readErr = errors.New("no test ran")
	}
	if readErr != nil {
		if err == nil {
			return table{}, fmt.Errorf("%w, although the suite exited without an error", readErr)
		}
		return table{}, fmt.Errorf("%w; the suite failed: %w", readErr, err)
	}
	t := table{suite: s, version: version, duration: time.Since(start), results: results}
	return t, t.check(err, focus)
}

// printProgress copies lines to the log, and prints those that the suite selects.
func printProgress(reader io.Reader, log io.Writer, progress func(string) string) {
	lines := bufio.NewReader(reader)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && line == "" {
			return
		}
		_, _ = io.WriteString(log, line)
		if text := progress(strings.TrimSpace(line)); text != "" {
			fmt.Println(text)
		}
	}
}
