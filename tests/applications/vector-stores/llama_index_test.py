"""LlamaIndex's Cassandra vector store, as its documentation uses it: one partition per document, a row per node of it."""

import cassio
from llama_index.core import Document, MockEmbedding, Settings, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import ExactMatchFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index.vector_stores.cassandra import CassandraVectorStore

from harness import DIMENSIONS, QUOTES, close, embed, equal, expect_error, nearest, restart, run, similarity

KEYSPACE = "llama_index"
QUESTION = "What can men learn from history, and how do they live?"


class WordEmbedding(MockEmbedding):
    def _get_text_embedding(self, text):
        return embed(text)

    def _get_query_embedding(self, query):
        return embed(query)


def store(table="essays"):
    return CassandraVectorStore(table=table, embedding_dimension=DIMENSIONS)


def rows():
    """The id of each node to its text; the author is the document."""
    return {f"{author}-{number}": text for number, (author, _, text) in enumerate(QUOTES)}


def node(name, author, tags, text):
    made = TextNode(id_=name, text=text, metadata={"author": author, "tags": len(tags)}, embedding=embed(text))
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=author)
    return made


def query(text=QUESTION, count=3, **options):
    return VectorStoreQuery(query_embedding=embed(text), similarity_top_k=count, **options)


def only(**values):
    return MetadataFilters(filters=[ExactMatchFilter(key=key, value=value) for key, value in values.items()])


def test_adding_and_querying(session):
    cassio.init(session=session, keyspace=KEYSPACE)
    nodes = [node(name, *quote) for name, quote in zip(rows(), QUOTES)]
    equal(store().add(nodes), list(rows()))
    found = store().query(query(count=5))
    expected = nearest(QUESTION, rows(), 5)
    equal(found.ids, expected)
    close(found.similarities, [similarity(embed(QUESTION), embed(rows()[name])) for name in expected])
    equal([one.get_content() for one in found.nodes], [rows()[name] for name in expected])
    equal(store().query(query(count=100)).ids, nearest(QUESTION, rows(), 100))


def test_filters(_):
    plato = {name: text for name, text in rows().items() if name.startswith("plato")}
    equal(store().query(query(filters=only(author="plato"))).ids, nearest(QUESTION, plato, 3))
    two = {name: rows()[name] for name, (author, tags, _) in zip(rows(), QUOTES) if author == "plato" and len(tags) == 2}
    equal(store().query(query(filters=only(author="plato", tags=2))).ids, nearest(QUESTION, two, 3))
    equal(store().query(query(filters=only(author="nobody"))).ids, [])
    expect_error(ValueError, lambda: store().query(query(filters=only(_node_content="x"))))


def test_diversity(_):
    diverse = query(mode=VectorStoreQueryMode.MMR, mmr_threshold=0.5)
    everything = store().query(diverse, mmr_prefetch_k=20)
    equal(len(set(everything.ids)), 3)
    # Prefetching all that there is by another factor changes nothing.
    equal(store().query(diverse, mmr_prefetch_factor=10.0).ids, everything.ids)


def test_the_index_over_it(session):
    """The example of its documentation: documents in, questions and answers, the store found again, a document out."""
    Settings.llm, Settings.embed_model = MockLLM(), WordEmbedding(embed_dim=DIMENSIONS)
    Settings.chunk_size, Settings.chunk_overlap = 64, 0
    documents = [Document(id_=author, text=" ".join(text for who, _, text in QUOTES if who == author), metadata={"by": author})
                 for author in sorted({author for author, _, _ in QUOTES})]
    context = StorageContext.from_defaults(vector_store=store("documents"))
    index = VectorStoreIndex.from_documents(documents, storage_context=context)
    equal(index.as_retriever(similarity_top_k=1).retrieve("men learn from history")[0].node.ref_doc_id, "hegel")
    assert "history" in str(index.as_query_engine(similarity_top_k=2).query("men learn from history"))
    restart(session)
    index = VectorStoreIndex.from_vector_store(store("documents"))
    retriever = index.as_retriever(similarity_top_k=50)
    equal(sorted({found.node.ref_doc_id for found in retriever.retrieve("life")}), [document.id_ for document in documents])
    filtered = index.as_retriever(similarity_top_k=50, filters=only(by="kant"))
    equal({found.node.ref_doc_id for found in filtered.retrieve("life")} == {"kant"}, True)
    diverse = index.as_retriever(similarity_top_k=3, vector_store_query_mode="mmr", vector_store_kwargs={"mmr_prefetch_factor": 4})
    equal(len(diverse.retrieve("life")), 3)
    store("documents").delete("hegel")
    assert "hegel" not in {found.node.ref_doc_id for found in retriever.retrieve("men learn from history")}


def test_writing_again_and_deleting(_):
    changed = node("kant-17", "kant", [], "What men learn from history is how they live.")
    store().add([changed])
    expected = {**rows(), "kant-17": changed.text}
    equal(store().query(query(count=100)).ids, nearest(QUESTION, expected, 100))
    store().delete("kant")
    left = {name: text for name, text in rows().items() if not name.startswith("kant")}
    equal(store().query(query(count=100)).ids, nearest(QUESTION, left, 100))
    equal(store().query(query(filters=only(author="kant"))).ids, [])
    store().client.clear()
    equal(store().query(query()).ids, [])


if __name__ == "__main__":
    run(KEYSPACE, [test_adding_and_querying, test_filters, test_diversity, test_the_index_over_it,
                   test_writing_again_and_deleting])
