// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wayleave/wayleave/datastore"
)

func ExampleDir() {
	path, err := os.MkdirTemp("", "wayleave")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)
	for file, text := range map[string]string{
		"security.json": `{"kind": "Tier", "name": "security", "order": 10}`,
		"broken.json":   `{"kind": "Tier", "name": "broken", "ordre": 10}`,
	} {
		if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o644); err != nil {
			panic(err)
		}
	}
	dir, err := datastore.NewDir(datastore.DirConfig{
		Path:     path,
		Rejected: func(file string, err error) { fmt.Println("rejected:", file) },
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	fmt.Println(dir.Run(ctx, printer{stop}))
	// Output:
	// rejected: broken.json
	// Tier/security true
	// in sync
	// context canceled
}
