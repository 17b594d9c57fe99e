"""LangChain's Cassandra vector store (langchain-community on cassio), as its documentation uses it; and its other stores."""

import asyncio
import warnings

# The package says at every import that it moves to other packages.
warnings.filterwarnings("ignore", category=DeprecationWarning)

import cassio
import numpy
from cassio.table.cql import LOWER_CASE_ANALYZER
from langchain_community.cache import CassandraCache, CassandraSemanticCache
from langchain_community.chat_message_histories import CassandraChatMessageHistory
from langchain_community.document_loaders import CassandraLoader
from langchain_community.storage import CassandraByteStore
from langchain_community.utilities.cassandra import SetupMode
from langchain_community.vectorstores import Cassandra
from langchain_community.vectorstores.utils import maximal_marginal_relevance
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.outputs import Generation

from harness import QUOTES, close, embed, equal, expect_error, nearest, restart, run, similarity, wait_until

KEYSPACE = "langchain"
QUESTION = "What can men learn from history, and how do they live?"
# Generated texts, for recall: some are deleted and some written again.
MANY = 600
WORDS = 40


class WordEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return [embed(text) for text in texts]

    def embed_query(self, text):
        return embed(text)


def store(table, **options):
    return Cassandra(embedding=WordEmbeddings(), table_name=table, **options)


def philosophers():
    """The store of most tests, and what it was filled with: the id of each quote to its text."""
    vectors = store("philosophers")
    return vectors, {f"{author}-{number}": text for number, (author, _, text) in enumerate(QUOTES)}


def by(author, rows):
    return {name: text for name, text in rows.items() if name.startswith(author)}


def ids(documents):
    return [document.id for document in documents]


def score_of(text):
    """As cassio has it, and `similarity_cosine`: between 0 and 1."""
    return (1 + similarity(embed(QUESTION), embed(text))) / 2


def diverse(query, rows, count, fetched):
    """What is chosen for diversity among the `fetched` nearest, in the order in which the store gives them."""
    pool = nearest(query, rows, fetched)
    vectors = [embed(rows[name]) for name in pool]
    chosen = maximal_marginal_relevance(numpy.array(embed(query), dtype=numpy.float32), vectors, k=count)
    return [name for place, name in enumerate(pool) if place in chosen]


def test_tables_and_indexes(session):
    cassio.init(session=session, keyspace=KEYSPACE)
    store("philosophers")
    # A second program finds what the first one made.
    store("philosophers")
    rows = session.execute("SELECT index_name, kind, options FROM system_schema.indexes WHERE keyspace_name = %s", [KEYSPACE])
    equal(sorted((row.index_name, row.kind, row.options["target"]) for row in rows),
          [("eidx_metadata_s_philosophers", "CUSTOM", "entries(metadata_s)"), ("idx_vector_philosophers", "CUSTOM", "vector")])


def test_adding(_):
    vectors, rows = philosophers()
    names = list(rows)
    documents = [Document(page_content=text, metadata={"author": author, **{tag: "y" for tag in tags}})
                 for author, tags, text in QUOTES[:12]]
    equal(vectors.add_documents(documents, ids=names[:12]), names[:12])
    equal(vectors.add_texts([text for _, _, text in QUOTES[12:]],
                            [{"author": author, **{tag: "y" for tag in tags}} for author, tags, _ in QUOTES[12:]],
                            ids=names[12:]), names[12:])


def test_searching(_):
    vectors, rows = philosophers()
    equal(ids(vectors.similarity_search(QUESTION, k=3)), nearest(QUESTION, rows, 3))
    found = vectors.similarity_search(QUOTES[5][2], k=1)[0]
    equal((found.page_content, found.metadata), (QUOTES[5][2], {"author": "plato", "knowledge": "y"}))
    equal(ids(vectors.similarity_search_by_vector(embed(QUESTION), k=7)), nearest(QUESTION, rows, 7))


def test_more_than_there_is(_):
    vectors, rows = philosophers()
    equal(ids(vectors.similarity_search(QUESTION, k=1000)), nearest(QUESTION, rows, len(rows)))
    equal(ids(vectors.similarity_search(QUESTION, k=1000, filter={"author": "kant"})), nearest(QUESTION, by("kant", rows), 9))
    expect_error(Exception, lambda: vectors.similarity_search(QUESTION, k=1001), "not greater than 1000")


def test_scores(_):
    vectors, rows = philosophers()
    expected = nearest(QUESTION, rows, 5)
    found = vectors.similarity_search_with_score(QUESTION, k=5)
    equal([document.id for document, _ in found], expected)
    close([score for _, score in found], [score_of(rows[name]) for name in expected])
    found = vectors.similarity_search_with_score_id(QUESTION, k=2, filter={"author": "plato"})
    equal([name for _, _, name in found], nearest(QUESTION, by("plato", rows), 2))


def test_filters(_):
    vectors, rows = philosophers()
    for author in sorted({author for author, _, _ in QUOTES}):
        equal(ids(vectors.similarity_search(QUESTION, k=3, filter={"author": author})), nearest(QUESTION, by(author, rows), 3))
    both = {name: rows[name] for name, (author, tags, _) in zip(rows, QUOTES) if author == "seneca" and "ethics" in tags}
    equal(ids(vectors.similarity_search(QUESTION, k=3, filter={"author": "seneca", "ethics": "y"})), nearest(QUESTION, both, 3))
    equal(ids(vectors.similarity_search(QUESTION, k=3, filter={"author": "seneca", "love": "y"})), [])
    equal(ids(vectors.similarity_search(QUESTION, k=3, filter={"author": "'; DROP TABLE x; --"})), [])


def test_diversity(_):
    vectors, rows = philosophers()
    equal(ids(vectors.max_marginal_relevance_search(QUESTION, k=3, fetch_k=12)), diverse(QUESTION, rows, 3, 12))
    equal(ids(vectors.max_marginal_relevance_search(QUESTION, k=2, filter={"author": "aristotle"})),
          diverse(QUESTION, by("aristotle", rows), 2, 20))


def test_retrievers(_):
    vectors, rows = philosophers()
    equal(ids(vectors.as_retriever(search_kwargs={"k": 4}).invoke(QUESTION)), nearest(QUESTION, rows, 4))
    threshold = vectors.as_retriever(search_type="similarity_score_threshold", search_kwargs={"k": 20, "score_threshold": 0.65})
    near = [name for name in nearest(QUESTION, rows, 20) if score_of(rows[name]) >= 0.65]
    assert 0 < len(near) < 20
    equal(ids(threshold.invoke(QUESTION)), near)
    diversity = vectors.as_retriever(search_type="mmr", search_kwargs={"k": 3, "fetch_k": 10})
    equal(ids(diversity.invoke(QUESTION)), diverse(QUESTION, rows, 3, 10))


def test_reading_without_a_vector(_):
    vectors, rows = philosophers()
    found = vectors.get_by_document_id("kant-16")
    equal((found.page_content, found.metadata), (rows["kant-16"], {"author": "kant", "knowledge": "y"}))
    equal(vectors.get_by_document_id("nobody"), None)
    equal(sorted(ids(vectors.metadata_search({"author": "hegel"}, n=5))), sorted(by("hegel", rows)))
    loader = CassandraLoader(table="philosophers", page_content_mapper=lambda row: row.body_blob,
                             metadata_mapper=lambda row: row.metadata_s)
    equal(sorted(document.page_content for document in loader.load()), sorted(rows.values()))


def test_a_restart(session):
    vectors, rows = philosophers()
    restart(session)
    vectors = store("philosophers")
    equal(ids(vectors.similarity_search(QUESTION, k=20)), nearest(QUESTION, rows, 20))
    equal(ids(vectors.similarity_search(QUESTION, k=3, filter={"author": "plato"})), nearest(QUESTION, by("plato", rows), 3))


def test_writing_again(_):
    vectors, rows = philosophers()
    changed = "What men learn from history is how they live."
    vectors.add_texts([changed], [{"author": "nobody"}], ids=["hegel-18"])
    equal(ids(vectors.similarity_search(QUESTION, k=20)), nearest(QUESTION, {**rows, "hegel-18": changed}, 20))
    equal(ids(vectors.similarity_search(QUESTION, k=20, filter={"author": "hegel"})), ["hegel-19"])
    vectors.replace_metadata({"hegel-18": {"author": "hegel", "again": True}})
    found = vectors.similarity_search(QUESTION, k=20, filter={"author": "hegel", "again": True})
    equal([(document.id, document.page_content) for document in found], [("hegel-18", changed)])
    equal(found[0].metadata, {"author": "hegel", "again": "true"})
    vectors.add_texts([rows["hegel-18"]], [{"author": "hegel", "history": "y", "knowledge": "y"}], ids=["hegel-18"])
    equal(ids(vectors.similarity_search(QUESTION, k=20)), nearest(QUESTION, rows, 20))
    equal(ids(vectors.similarity_search(QUESTION, k=20, filter={"again": True})), [])


def test_kinds_of_metadata(_):
    vectors = store("kinds")
    vectors.add_texts(["one", "two", "three", "four"],
                      [{"n": 1}, {"n": 1.0, "flag": False}, {"n": None}, {"n": "x" * 900, "e": ""}], ids=["1", "2", "3", "4"])
    equal(sorted(ids(vectors.similarity_search("one", k=4, filter={"n": 1}))), ["1", "2"])
    equal(ids(vectors.similarity_search("one", k=4, filter={"n": None})), ["3"])
    equal(ids(vectors.similarity_search("one", k=4, filter={"flag": False})), ["2"])
    equal(ids(vectors.similarity_search("one", k=4, filter={"n": "x" * 900})), ["4"])
    equal(ids(vectors.similarity_search("one", k=4, filter={"n": "x" * 899})), [])
    equal(ids(vectors.similarity_search("one", k=4, filter={"e": ""})), ["4"])


def test_what_is_indexed(session):
    vectors = store("allowed", metadata_indexing=("allowlist", ["author"]))
    vectors.add_texts(["one", "two"], [{"author": "a", "page": 1}, {"author": "b", "page": 2}], ids=["1", "2"])
    equal(ids(vectors.similarity_search("one", k=4, filter={"author": "b"})), ["2"])
    equal(vectors.similarity_search("two", k=1)[0].metadata, {"author": "b", "page": "2.0"})
    expect_error(ValueError, lambda: vectors.similarity_search("one", k=4, filter={"page": 2}))
    folded = store("folded", body_index_options=[LOWER_CASE_ANALYZER])
    folded.add_texts(["One", "two"], ids=["1", "2"])
    rows = session.execute(f"SELECT row_id FROM {KEYSPACE}.folded WHERE body_blob = 'oNE' ORDER BY vector ANN OF %s LIMIT 3",
                           [embed("two")])
    equal([row.row_id for row in rows], ["1"])


def test_expiry(_):
    vectors = store("expiring")
    vectors.add_texts(["stays"], ids=["1"])
    vectors.add_texts(["goes soon", "goes as well"], ids=["2", "3"], ttl_seconds=1)
    wait_until(lambda: ids(vectors.similarity_search("goes soon", k=3)) == ["1"])
    assert vectors.get_by_document_id("2") is None
    vectors.add_texts(["comes back"], ids=["2"])
    equal(ids(vectors.similarity_search("comes back", k=3)), ["2", "1"])


def test_at_once(_):
    """What is written is found by the next search, and what is deleted is not."""
    vectors = store("fresh")
    rows = {}
    for number in range(60):
        name = str(number)
        rows[name] = f"text {number} of {number % 7} and {number % 11}"
        vectors.add_texts([rows[name]], ids=[name])
        assert ids(vectors.similarity_search(rows[name], k=1)) == [name]
        if number % 3 == 2:
            gone = str(number // 2)
            vectors.delete([gone])
            rows.pop(gone, None)
            assert ids(vectors.similarity_search("text 1 of 1", k=100)) == nearest("text 1 of 1", rows, 100)


def generated(random):
    return " ".join(f"word{word}" for word in random.integers(0, WORDS, 8))


def recall(vectors, rows, random, **options):
    found = wanted = 0
    for _ in range(40):
        query = generated(random)
        expected = nearest(query, rows, 10)
        got = ids(vectors.similarity_search(query, k=10, **options))
        # LIMIT is filled, in order, by rows that are there.
        assert len(got) == len(set(got)) == len(expected) and set(got) <= set(rows)
        assert got == nearest(query, {name: rows[name] for name in got}, 10)
        found += len(set(got) & set(expected))
        wanted += len(expected)
    return found / wanted


def test_recall(_):
    vectors, random = store("many"), numpy.random.default_rng(7)
    rows = {str(number): generated(random) for number in range(MANY)}
    group = {name: {"group": int(name) % 10} for name in rows}
    vectors.add_texts(rows.values(), list(group.values()), ids=list(rows), batch_size=64)
    assert recall(vectors, rows, random) >= 0.95
    fourth = {name: text for name, text in rows.items() if group[name]["group"] == 4}
    assert recall(vectors, fourth, random, filter={"group": 4}) >= 0.95
    gone = [name for name in rows if int(name) % 10 < 3]
    vectors.delete(gone)
    changed = {name: generated(random) for name in rows if int(name) % 10 > 6}
    vectors.add_texts(changed.values(), [group[name] for name in changed], ids=list(changed), batch_size=64)
    rows = {name: changed.get(name, text) for name, text in rows.items() if name not in gone}
    assert recall(vectors, rows, random) >= 0.94
    eighth = {name: text for name, text in rows.items() if group[name]["group"] == 8}
    assert recall(vectors, eighth, random, filter={"group": 8}) >= 0.94
    equal(vectors.delete_by_metadata_filter({"group": 8}), len(eighth))
    equal(ids(vectors.similarity_search("word1", k=10, filter={"group": 8})), [])


def test_deleting(_):
    vectors, rows = philosophers()
    names = list(rows)
    equal(vectors.delete(names[:3]), True)
    equal(vectors.delete(names[2:5]), True)
    left = {name: text for name, text in rows.items() if name not in names[:5]}
    equal(ids(vectors.similarity_search(QUESTION, k=20)), nearest(QUESTION, left, 20))
    equal(vectors.delete_by_metadata_filter({"ethics": "y"}, batch_size=2), 7)
    left = {name: rows[name] for name, (_, tags, _) in zip(rows, QUOTES) if name in left and "ethics" not in tags}
    equal(ids(vectors.similarity_search(QUESTION, k=20)), nearest(QUESTION, left, 20))
    vectors.delete_collection()
    equal(vectors.similarity_search(QUESTION, k=20), [])
    vectors.add_texts(["after"], ids=["1"])
    equal(ids(vectors.similarity_search(QUESTION, k=20)), ["1"])


async def asynchronously():
    vectors = store("later", setup_mode=SetupMode.ASYNC)
    rows = {str(number): text for number, (_, _, text) in enumerate(QUOTES)}
    metadata = [{"author": author} for author, _, _ in QUOTES]
    equal(await vectors.aadd_texts(rows.values(), metadata, ids=list(rows)), list(rows))
    equal(ids(await vectors.asimilarity_search(QUESTION, k=20)), nearest(QUESTION, rows, 20))
    found = await vectors.asimilarity_search_with_score(QUESTION, k=2, filter={"author": "plato"})
    plato = {name: text for name, text in rows.items() if 4 <= int(name) < 8}
    equal([document.id for document, _ in found], nearest(QUESTION, plato, 2))
    searches = [vectors.asimilarity_search(text, k=1) for text in rows.values()]
    equal([ids(found) for found in await asyncio.gather(*searches)], [[name] for name in rows])
    equal(ids(await vectors.amax_marginal_relevance_search(QUESTION, k=3, fetch_k=10)), diverse(QUESTION, rows, 3, 10))
    await vectors.adelete(["0", "1"])
    del rows["0"], rows["1"]
    equal(ids(await vectors.asimilarity_search(QUESTION, k=20)), nearest(QUESTION, rows, 20))
    equal(await vectors.adelete_by_metadata_filter({"author": "plato"}), 4)
    await vectors.aclear()
    equal(await vectors.asimilarity_search(QUESTION, k=20), [])


def test_asynchronously(_):
    asyncio.run(asynchronously())


def test_caches(_):
    answer = [Generation(text="42")]
    cache = CassandraCache()
    equal(cache.lookup("question", "model"), None)
    cache.update("question", "model", answer)
    equal([one.text for one in cache.lookup("question", "model")], ["42"])
    cache.delete("question", "model")
    equal(cache.lookup("question", "model"), None)
    similar = CassandraSemanticCache(embedding=WordEmbeddings(), score_threshold=0.8)
    similar.update("how do men live", "model", answer)
    equal([one.text for one in similar.lookup("how do men live well", "model")], ["42"])
    equal(similar.lookup("how do men live well", "another model"), None)
    equal(similar.lookup("something else entirely", "model"), None)


def test_chat_history(_):
    history = CassandraChatMessageHistory(session_id="one")
    history.add_user_message("hello")
    history.add_ai_message("what is up?")
    other = CassandraChatMessageHistory(session_id="two")
    equal([(message.type, message.content) for message in history.messages], [("human", "hello"), ("ai", "what is up?")])
    equal(other.messages, [])
    history.clear()
    equal(history.messages, [])


def test_byte_store(_):
    values = CassandraByteStore(table="bytes")
    values.mset([("a", b"\x00\xff"), ("b", b""), ("c", b"c" * 100_000)])
    equal([value and len(value) for value in values.mget(["a", "nothing", "c"])], [2, None, 100_000])
    values.mdelete(["a", "nothing"])
    equal(sorted(values.yield_keys()), ["b", "c"])


if __name__ == "__main__":
    run(KEYSPACE, [
        test_tables_and_indexes, test_adding, test_searching, test_more_than_there_is, test_scores, test_filters,
        test_diversity, test_retrievers, test_reading_without_a_vector, test_a_restart, test_writing_again,
        test_kinds_of_metadata, test_what_is_indexed, test_expiry, test_at_once, test_recall, test_deleting,
        test_asynchronously, test_caches, test_chat_history, test_byte_store,
    ])
