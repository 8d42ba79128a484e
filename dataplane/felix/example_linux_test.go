// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix"
)

// A driver that cannot be started is reported. A dataplane.Driver calls Apply again until it runs.
func Example() {
	dp, err := felix.New(felix.Config{
		Command:  []string{"/nowhere/driver"},
		Stderr:   os.Stderr,
		Settings: map[string]string{"InterfacePrefix": "cali"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dp.Close() }()

	complete := dptest.NewState() // from a graph, in a program
	complete.InSync = true
	err = dp.Apply(context.Background(), dptest.Transition(dptest.NewState(), complete))
	_, general := dataplane.ApplyErrors(err)
	fmt.Println(general, errors.Is(err, felix.ErrNotRunning), err)
	// Output: true true felix: run driver: the driver is not running: fork/exec /nowhere/driver: no such file or directory
}

// A node whose driver gets Felix's configuration parameters. It needs a driver, so it does not run
// as a test.
func ExampleNew() {
	dp, err := felix.New(felix.Config{
		Command:  []string{"/usr/local/bin/driver"},
		Stderr:   os.Stderr,
		Settings: map[string]string{"InterfacePrefix": "cali", "DefaultEndpointToHostAction": "ACCEPT"},
	})
	if err != nil {
		log.Fatal(err)
	}
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dp}})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(driver.Run(context.Background())) // give driver.Send to a calcgraph.Runner
	_ = dp.Close()
}
