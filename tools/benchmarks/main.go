// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

const usage = `usage: benchmarks [-root FOLDER] COMMAND

  list                       list the sections, and when each was recorded
  record [-n] SECTION...     run the commands of sections, save the results, render the pages
      -n      print the sections and save nothing
      -quick  run each benchmark once, to check the names of rows; implies -n
  page [-check]              render docs/benchmarks.md, docs/performance.md, the charts, and tables on other pages
      -check  write nothing, and fail if a file differs

docs/benchmarks/catalogue.yaml has the sections, docs/benchmarks/results.json their results.
`

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// project is the repository with its catalogue and results.
type project struct {
	root      string
	catalogue *Catalogue
	results   Results
}

func open(root string) (*project, error) {
	p := &project{root: root}
	var err, err2 error
	p.catalogue, err = loadCatalogue(p.path("docs/benchmarks/catalogue.yaml"))
	p.results, err2 = loadResults(p.path(resultsFile))
	return p, errors.Join(err, err2)
}

const resultsFile = "docs/benchmarks/results.json"

func (p *project) path(name string) string { return filepath.Join(p.root, filepath.FromSlash(name)) }

func run(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { fmt.Fprint(out, usage) }
	root := flags.String("root", ".", "the folder of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	command, args := flags.Arg(0), flags.Args()
	if command == "" {
		return errors.New("a command is missing: list, record or page; --help explains them")
	}
	sub := flag.NewFlagSet(command, flag.ContinueOnError)
	sub.SetOutput(out)
	sub.Usage = flags.Usage
	dry, quick, check := new(bool), new(bool), new(bool)
	switch command {
	case "record":
		dry = sub.Bool("n", false, "save nothing")
		quick = sub.Bool("quick", false, "run each benchmark once")
	case "page":
		check = sub.Bool("check", false, "write nothing")
	case "list":
	default:
		return fmt.Errorf("unknown command %q: list, record or page", command)
	}
	if err := sub.Parse(args[1:]); err != nil {
		return err
	}
	p, err := open(*root)
	if err != nil {
		return err
	}
	switch command {
	case "record":
		return p.record(sub.Args(), recordOptions{quick: *quick, dry: *dry || *quick, out: out, progress: progress})
	case "page":
		return p.page(*check)
	}
	return p.list(out)
}

func (p *project) list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SECTION\tRECORDED\tCOMMIT\tTOOK")
	for _, s := range p.catalogue.Sections {
		if r := p.results[s.Name]; r != nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d s\n", s.Name, r.Date, r.Commit, r.Seconds)
		} else {
			fmt.Fprintf(w, "%s\tnot recorded\t\t\n", s.Name)
		}
	}
	return w.Flush()
}

// sectionNames returns the names of all sections, for messages.
func (p *project) sectionNames() string {
	var names []string
	for _, s := range p.catalogue.Sections {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
