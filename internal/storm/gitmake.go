package storm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// makeRepository makes the bare repository that o asks for. Its objects depend on Objects, Size and Seed alone.
func makeRepository(ctx context.Context, o *GitOptions) error {
	if o.Objects < minObjects || o.Objects > maxObjects {
		return &UsageError{fmt.Errorf("objects is %d: it must be from %d to %d", o.Objects, minObjects, maxObjects)}
	}
	if o.Size < 1 || o.Size > maxBlob {
		return &UsageError{fmt.Errorf("size is %d: it must be from 1 to %d", o.Size, int64(maxBlob))}
	}
	if entries, err := os.ReadDir(o.Make); err == nil && len(entries) > 0 {
		return &UsageError{fmt.Errorf("make %s: the directory is not empty", o.Make)}
	}
	if _, err := gitOutput(ctx, "init", "--quiet", "--bare", "--initial-branch=main", o.Make); err != nil {
		return err
	}
	if err := fastImport(ctx, o.Make, planRepository(o.Objects, int64(o.Size), o.Seed)); err != nil {
		return err
	}
	// fast-import compares an object with the one before it only; a host would have repacked.
	_, err := gitOutput(ctx, "-C", o.Make, "-c", "pack.threads=0", "repack", "--quiet", "-a", "-d", "-f", "--depth=50", "--window=10")
	return err
}

func fastImport(ctx context.Context, dir string, p *repositoryPlan) error {
	var said endOf
	c := gitCommand(ctx, "-C", dir, "fast-import", "--quiet", "--done")
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	w := bufio.NewWriterSize(in, 1<<20)
	p.write(w)
	writeErr := errors.Join(w.Flush(), in.Close())
	if err := c.Wait(); err != nil {
		return fmt.Errorf("git fast-import: %w: %s", err, said.text())
	}
	return writeErr
}

// repositoryPlan is a history: a first commit with all files, and commits that change a file each. Such a commit adds four
// objects: itself, two trees and a blob. What is missing to the number asked for is annotated tags.
type repositoryPlan struct {
	dirs, files int // files in each directory
	commits     int // after the first
	tags        int // annotated
	lines       int // of a file
	fresh       int // lines that a commit changes
	draw        *rand.ChaCha8
	text        map[int][][]byte // lines of each file that was changed or made
}

const (
	// lineRaw bytes that do not compress make a line; a version of a file adds to the pack what it changes, and objectCost is
	// what each object adds besides.
	lineRaw    = 48
	objectCost = 90

	// A file has at least so many lines, and so many times what a commit changes of it: Git keeps no delta that is large beside
	// its object, and the less of one the longer its chain.
	leastLines = 64
	unchanged  = 8

	addedByCommit = 4
	branchEvery   = 1000 // commits; a branch and a tag that is none
)

func planRepository(objects int, size int64, seed uint64) *repositoryPlan {
	p := &repositoryPlan{dirs: 5, files: 5, text: map[int][][]byte{}}
	if objects >= 10_000 {
		p.dirs, p.files = 40, 50
	}
	first := p.dirs*p.files + p.dirs + 2
	p.commits = (objects - first) / addedByCommit
	p.tags = (objects - first) % addedByCommit
	changes := int64(unchanged*p.dirs*p.files + p.commits)
	p.fresh = max(int((size-int64(objects)*objectCost+changes*lineRaw/2)/(changes*lineRaw)), 1)
	p.lines = max(leastLines, unchanged*p.fresh)
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	p.draw = rand.NewChaCha8(key)
	return p
}

func (p *repositoryPlan) path(file int) string {
	return fmt.Sprintf("d%02d/f%03d", file/p.files, file%p.files)
}

func (p *repositoryPlan) write(w io.Writer) {
	p.commit(w, 0, func() {
		for file := range p.dirs * p.files {
			p.blob(w, file, p.lines)
		}
	})
	lots := rand.New(p.draw)
	for n := 1; n <= p.commits; n++ {
		p.commit(w, n, func() { p.blob(w, lots.IntN(p.dirs*p.files), p.fresh) })
		if n%branchEvery == 0 {
			fmt.Fprintf(w, "reset refs/heads/branch-%d\nfrom refs/heads/main\n\nreset refs/tags/light-%d\nfrom refs/heads/main\n\n", n, n)
		}
	}
	for n := range p.tags {
		text := fmt.Sprintf("release %d", n+1)
		fmt.Fprintf(w, "tag v%d\nfrom refs/heads/main\ntagger %s %d +0000\ndata %d\n%s\n", n+1, author, epoch+n, len(text), text)
	}
	io.WriteString(w, "done\n") // all of it goes to a buffered pipe: its Flush tells of errors
}

const (
	author = "Storm <storm@localhost>"
	epoch  = 1_577_836_800 // the first of January 2020
)

func (p *repositoryPlan) commit(w io.Writer, n int, change func()) {
	text := fmt.Sprintf("change %d", n)
	fmt.Fprintf(w, "commit refs/heads/main\ncommitter %s %d +0000\ndata %d\n%s\n", author, epoch+60*n, len(text), text)
	change()
	io.WriteString(w, "\n")
}

// blob changes the next lines of a file, in turn, so that versions have most of their text in common.
func (p *repositoryPlan) blob(w io.Writer, file, change int) {
	lines := p.text[file]
	if lines == nil {
		lines = make([][]byte, 0, p.lines)
	}
	for range change {
		line := p.line()
		if len(lines) < p.lines {
			lines = append(lines, line)
			continue
		}
		lines = append(lines[1:], line)
	}
	p.text[file] = lines
	whole := bytes.Join(lines, []byte("\n"))
	fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n", p.path(file), len(whole)+1)
	w.Write(whole)
	io.WriteString(w, "\n\n")
}

func (p *repositoryPlan) line() []byte {
	var raw [lineRaw]byte
	p.draw.Read(raw[:]) // never fails
	return base64.RawStdEncoding.AppendEncode(nil, raw[:])
}
