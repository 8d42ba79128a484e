// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

type recordOptions struct {
	quick bool // one iteration of each benchmark
	dry   bool // save nothing
	// out gets the sections if nothing is saved, progress the lines of results as they come.
	out, progress io.Writer
}

// record runs the commands of sections. It saves each section before it runs the next.
func (p *project) record(names []string, o recordOptions) error {
	if len(names) == 0 {
		return errors.New("record: no section; there are " + p.sectionNames())
	}
	for _, name := range names {
		if p.catalogue.section(name) == nil {
			return fmt.Errorf("record: no section %q; there are %s", name, p.sectionNames())
		}
	}
	for _, name := range names {
		section := p.catalogue.section(name)
		recording, err := p.measure(section, o)
		if err != nil {
			return fmt.Errorf("record %s: %w", name, err)
		}
		p.results[name] = recording
		if o.dry {
			fmt.Fprint(o.out, section.render(recording))
			continue
		}
		if err := p.results.save(p.path(resultsFile)); err != nil {
			return err
		}
	}
	if o.dry {
		return p.missing()
	}
	return p.page(false)
}

// measure runs all commands of a section.
func (p *project) measure(s *Section, o recordOptions) (*Recording, error) {
	recording, err := p.newRecording()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var output bytes.Buffer
	for i, command := range s.Commands {
		if o.quick {
			command = once(command)
		}
		fmt.Fprintf(o.progress, "%s, command %d of %d, after %s: %s\n",
			s.Name, i+1, len(s.Commands), time.Since(start).Round(time.Second), command)
		if err := p.shell(command, &output, o.progress); err != nil {
			return nil, err
		}
		recording.Commands = append(recording.Commands, command)
	}
	recording.Seconds = int(time.Since(start).Seconds())
	runs, err := parseRuns(bytes.NewReader(output.Bytes()))
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("the commands printed no result of a benchmark:\n%s", output.Bytes())
	}
	recording.Results = merge(runs)
	return recording, nil
}

var (
	// turns matches the beginning of a loop in which benchmarks take turns. tests matches a line
	// that runs benchmarks.
	turns = regexp.MustCompile(`for i in [^;]*;`)
	tests = regexp.MustCompile(`(?m)^.*go test .*$`)
)

// once returns a command that runs each benchmark once.
func once(command string) string {
	return turns.ReplaceAllString(tests.ReplaceAllString(command, "$0 -benchtime 1x -count 1"), "for i in 1;")
}

// shell runs one command, appends what it prints to output, and shows the lines of results.
func (p *project) shell(command string, output *bytes.Buffer, progress io.Writer) error {
	cmd := exec.Command("bash", "-ec", command)
	cmd.Dir = p.root
	reader, writer := io.Pipe()
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = writer, writer
	read := make(chan error, 1)
	go func() {
		lines := bufio.NewReader(io.TeeReader(reader, &all))
		for {
			line, err := lines.ReadString('\n')
			if strings.HasPrefix(line, "Benchmark") {
				fmt.Fprint(progress, line)
			}
			if err != nil {
				read <- err
				return
			}
		}
	}()
	err := cmd.Run()
	writer.Close()
	<-read
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, all.Bytes())
	}
	output.Write(all.Bytes())
	return nil
}

// newRecording returns a recording with its date, commit and machine.
func (p *project) newRecording() (*Recording, error) {
	r := &Recording{Date: time.Now().UTC().Format(time.DateOnly), Machine: Machine{Cores: runtime.NumCPU()}}
	var err error
	if r.Commit, err = p.output("git", "rev-parse", "--short=12", "HEAD"); err != nil {
		return nil, err
	}
	// The results and the pages are in docs, and differ once the first section is recorded.
	changes, err := p.output("git", "status", "--porcelain", "--", ".", ":!docs")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		r.Commit += "-dirty"
	}
	if r.Machine.Go, err = p.output("go", "env", "GOVERSION"); err != nil {
		return nil, err
	}
	r.Machine.CPU, r.Machine.Kernel = cpuModel(), firstWord("/proc/sys/kernel/osrelease")
	r.Machine.Load = firstWord("/proc/loadavg")
	return r, nil
}

func (p *project) output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// cpuModel returns the model of the first processor, or the architecture if Linux does not report
// the model.
func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// firstWord returns "unknown" if a file cannot be read.
func firstWord(file string) string {
	data, _ := os.ReadFile(file)
	if words := strings.Fields(string(data)); len(words) > 0 {
		return words[0]
	}
	return "unknown"
}
