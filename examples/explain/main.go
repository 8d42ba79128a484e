// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/wayleave/wayleave/examples/explain/internal/folder"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// The exit statuses.
const (
	isDenied      = 1
	failed        = cli.Misused
	notApplicable = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run runs the command that the arguments name, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Program{
		Name:     "explain",
		About:    "explain shows which connections policy allows, and why. It reads manifests and needs no cluster.",
		Commands: commands(),
		Failed:   failed,
	}.Run(ctx, cli.Console{Out: stdout, Err: stderr}, args)
}

func commands() []cli.Command {
	return []cli.Command{whyCommand(), matrixCommand(), selectsCommand(), diffCommand(), checkCommand()}
}

// exitStatuses ends each help text.
const exitStatuses = `

If an object cannot be understood, the command prints an error and answers without this object. Then the exit status
is always 2, unless you set --allow-rejected.`

// reading has the flags about reading manifests.
type reading struct{ recursive, allowRejected, assume bool }

func (r *reading) flags(flags *flag.FlagSet) {
	flags.BoolVar(&r.recursive, "recursive", false, "read folders inside folders, too")
	flags.BoolVar(&r.allowRejected, "allow-rejected", false,
		"do not set the exit status 2 for objects that cannot be understood")
	flags.BoolVar(&r.assume, "assume", false, "give pods without a node or address an invented one")
}

// read reads manifests, and prints their errors on the error output. If a command reads several
// sets of manifests, label distinguishes them.
func (r *reading) read(c cli.Console, label string, paths ...string) (*folder.Folder, error) {
	progress := cli.NewProgress(c, "reading manifests")
	f, err := folder.Read(folder.Config{Paths: paths, Recursive: r.recursive, Assume: r.assume})
	progress.End()
	if err != nil {
		return nil, err
	}
	for _, note := range f.Notes {
		c.Errorf("%snote: %s\n", label, note)
	}
	for _, problem := range f.Rejected {
		c.Errorf("%srejected: %v\n", label, problem)
	}
	return f, nil
}

// status returns the error with which a command ends: the given exit status, or the one for
// rejected objects.
func (r *reading) status(c cli.Console, status int, folders ...*folder.Folder) error {
	rejected := 0
	for _, f := range folders {
		rejected += len(f.Rejected)
	}
	switch {
	case rejected > 0 && !r.allowRejected:
		c.Errorf("explain: %s: the result ignores these objects, or closes these rules (--allow-rejected accepts it)\n",
			count(rejected, "problem"))
		return cli.ExitStatus(failed)
	case status != 0:
		return cli.ExitStatus(status)
	}
	return nil
}

// rejections returns the errors as texts, for JSON: an empty list if there are none.
func rejections(folders ...*folder.Folder) []string {
	texts := []string{}
	for _, f := range folders {
		for _, problem := range f.Rejected {
			texts = append(texts, problem.Error())
		}
	}
	return texts
}

// texts is a flag that may be given several times.
type texts []string

// String returns "". It implements flag.Value.
func (t *texts) String() string { return "" }

// Set adds a value.
func (t *texts) Set(value string) error {
	*t = append(*t, value)
	return nil
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func printJSON(c cli.Console, value any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
