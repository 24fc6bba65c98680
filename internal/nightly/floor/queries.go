package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
)

type person struct {
	RowID     int     `json:"rowId"`
	Username  string  `json:"username"`
	FirstName string  `json:"firstName"`
	LastName  *string `json:"lastName"`
	Mood      string  `json:"mood"`
}

func (f *floor) lookup(ctx context.Context, id int) (any, error) {
	var found *person
	err := f.query(ctx, "select id, username, first_name, last_name, mood::text from app_public.person where id = $1", id, func(rows pgx.Rows) error {
		found = new(person)
		return rows.Scan(&found.RowID, &found.Username, &found.FirstName, &found.LastName, &found.Mood)
	})
	return map[string]any{"personByRowId": found}, err
}

type author struct {
	RowID    int    `json:"rowId"`
	Username string `json:"username"`
}

type post struct {
	RowID    int     `json:"rowId"`
	Headline string  `json:"headline"`
	Topic    *string `json:"topic"`
	Score    int     `json:"score"`
	Author   author  `json:"personByAuthorId"`
}

// nodes is a connection of which only the nodes were asked for.
type nodes[T any] struct {
	Nodes []T `json:"nodes"`
}

// The page is taken before the join.
const listSQL = `
	select p.id, p.headline, p.topic, p.score, a.id, a.username
	from (select * from app_public.post order by id limit 50 offset $1) p
	join app_public.person a on a.id = p.author_id
	order by p.id`

func (f *floor) list(ctx context.Context, offset int) (any, error) {
	all := nodes[post]{Nodes: make([]post, 0, 50)}
	err := f.query(ctx, listSQL, offset, func(rows pgx.Rows) error {
		var p post
		err := rows.Scan(&p.RowID, &p.Headline, &p.Topic, &p.Score, &p.Author.RowID, &p.Author.Username)
		all.Nodes = append(all.Nodes, p)
		return err
	})
	return map[string]any{"allPosts": all}, err
}

// nestedSQL has PostgreSQL make the JSON, as most people would.
const nestedSQL = `
	select json_build_object('rowId', f.id, 'slug', f.slug, 'name', f.name, 'postsByForumId', json_build_object('nodes', p.nodes))
	from (select * from app_public.forum order by id limit 5 offset $1) f
	cross join lateral (
		select coalesce(json_agg(json_build_object('rowId', p.id, 'headline', p.headline, 'commentsByPostId', json_build_object('nodes', c.nodes)) order by p.id), '[]') as nodes
		from (select * from app_public.post where forum_id = f.id order by id limit 5) p
		cross join lateral (
			select coalesce(json_agg(json_build_object('rowId', c.id::text, 'body', c.body) order by c.id), '[]') as nodes
			from (select * from app_public.comment where post_id = p.id order by id limit 3) c
		) c
	) p
	order by f.id`

func (f *floor) nested(ctx context.Context, offset int) (any, error) {
	all := nodes[json.RawMessage]{Nodes: make([]json.RawMessage, 0, 5)}
	err := f.query(ctx, nestedSQL, offset, func(rows pgx.Rows) error {
		all.Nodes = append(all.Nodes, append(json.RawMessage(nil), rows.RawValues()[0]...))
		return nil
	})
	return map[string]any{"allForums": all}, err
}
