package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errMissing: a program is not on this machine.
var errMissing = errors.New("not found")

// postgresBin returns the folder of PostgreSQL's programs, installed if need be.
func postgresBin(ctx context.Context) (string, error) {
	if bin, err := findPostgres(); err == nil {
		return bin, nil
	}
	if err := Install(ctx, Programs{Postgres: true}); err != nil {
		return "", err
	}
	return findPostgres()
}

// redisBin returns the path of a Redis server, installed if need be.
func redisBin(ctx context.Context) (string, error) {
	if bin, err := findRedis(); err == nil {
		return bin, nil
	}
	if err := Install(ctx, Programs{Redis: true}); err != nil {
		return "", err
	}
	return findRedis()
}

// findPostgres looks for initdb and postgres in one folder: on the PATH, where
// Debian keeps one folder for each version (newest first), where a build from
// source goes, and where pg_config says.
func findPostgres() (string, error) {
	var folders []string
	if onPath, err := exec.LookPath("postgres"); err == nil {
		// A link may lead to the folder where the others are.
		if target, err := filepath.EvalSymlinks(onPath); err == nil {
			folders = append(folders, filepath.Dir(target))
		}
		folders = append(folders, filepath.Dir(onPath))
	}
	folders = append(folders, debianPostgres()...)
	folders = append(folders, "/usr/local/pgsql/bin")
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(out)))
	}
	for _, folder := range folders {
		if executable(filepath.Join(folder, "initdb")) && executable(filepath.Join(folder, "postgres")) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL server: %w", errMissing)
}

func debianPostgres() []string {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	version := func(folder string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		return n
	}
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	return folders
}

func findRedis() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("redis server: %w", errMissing)
}

// findCC checks that a C compiler works and has the C library's headers: the
// race detector needs both.
func findCC(ctx context.Context) error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
		if _, err := exec.LookPath(cc); err != nil {
			cc = "cc"
		}
	}
	words := strings.Fields(cc)
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], "-fsyntax-only", "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\n#include <pthread.h>\n")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("C compiler with headers: %w (%w: %s)", errMissing, err, firstLine(said.String()))
	}
	return nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
